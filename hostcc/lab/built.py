"""What every lab network has in common: it is recorded, built, and removed whatever happens."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from hostcc.lab import state

HOST_SYSCTLS = {
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_rmem": "4096 1048576 16777216",
    "net/ipv4/tcp_wmem": "4096 262144 16777216",
}
"""Larger first buffers than the kernel's: fewer wake-ups of senders and receivers."""


class BuiltNetwork(ABC):
    """A lab network; a context manager that removes it whatever happens."""

    def __init__(self) -> None:
        self.state = state.new_state()

    @abstractmethod
    def _parts(self) -> list[str]:
        """Hosts and switches, each of which is a namespace."""

    @abstractmethod
    def _build(self) -> None:
        """Make the parts and connect them; what has been made is removed when it raises."""

    def __enter__(self) -> Self:
        try:
            self.state = state.record(self.state, self._parts())
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything; safe to call twice.  Signals wait until it is done."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            state.remove(self.state)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def namespace(self, part: str) -> str:
        """Name of the namespace of a host or switch."""
        return self.state.namespace(part)
