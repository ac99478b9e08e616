"""Both ends of a checksummed stream, as processes, and the check that all of it arrived.

The receiver prints "ready", the sender its own port; at the end both print the number of bytes
and their digest, the sender when its standard input ends (repath_stream is such a pair).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from hostcc.lab.errors import LabError

Start = Callable[[], subprocess.Popen[bytes]]


class CheckedStream:
    """One stream.  `receive` and `send` start its ends, pipes for standard input and output."""

    def __init__(self, receive: Start, send: Start) -> None:
        """Raises LabError when an end does not begin."""
        self._ends = [receive()]
        self.receiver = self._ends[0]
        try:
            if (said := _line(self.receiver)) != "ready":
                raise LabError(f"receiver of a stream: expected ready, got {said!r}")
            self._ends.append(send())
            said = _line(self._ends[1])
            if not said.isdigit():
                raise LabError(f"sender of a stream: expected its port, got {said!r}")
        except BaseException:
            self.close()
            raise
        self.own_port = int(said)

    @property
    def alive(self) -> bool:
        """Whether both ends still run."""
        return all(process.poll() is None for process in self._ends)

    def finish(self) -> tuple[int, bool]:
        """Stop: bytes that were sent, and whether all arrived as they were."""
        receiver, sender = self._ends
        assert sender.stdin is not None
        sender.stdin.close()
        sent, got = _line(sender).split(), _line(receiver).split()
        sender.wait()
        receiver.wait()
        return (int(sent[0]) if sent else 0), sent == got != []

    def close(self) -> None:
        """End both, whatever they are doing."""
        for process in self._ends:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()
