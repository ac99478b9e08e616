"""Hooks and reserved ports of steering on this host: journalled, verified, undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from hostcc.bpf.loader.errors import BpfError
from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.changes import mechanisms, path_kinds
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.changes.steering_undo import network_namespace
from hostcc.daemon.supervisor import in_thread
from hostcc.errors import HostccError
from hostcc.log import get_logger
from hostcc.model import Change, Difference
from hostcc.paths import reserve
from hostcc.paths.steer_kernel import SteerKernel
from hostcc.paths.steering import Steering
from hostcc.paths.steering_messages import Timing

log = get_logger("steering")

DRAIN_S = 0.3
"""Wait in an orderly stop for peers to stop sending with ports of ours."""

KEEP_S = Timing().keep_s
"""Life of an unused translation."""


def left_behind(journal: Journal) -> list[Change]:
    """List the changes of steering that the journal has in force."""
    return [change for change in journal.active.values() if change.what in mechanisms.STEERING]


def clean_up(journal: Journal, how: str) -> list[str]:
    """Undo these changes; returns what could not be undone."""
    return mechanisms.undo_all(journal, mechanisms.STEERING, how)


def planned(config: PathsConfig, devices: Sequence[str]) -> list[Change]:
    """List the changes that `up` makes.  Raises HostccError."""
    netns = network_namespace()
    found = [path_kinds.hooks(device, netns) for device in devices]
    before, after = reserve.planned(config.first_port, config.last_port)
    if before != after:
        found.insert(0, path_kinds.reserved_ports(before, after, netns))
    return found


class KernelHooks:
    """Hooks on `devices`, the range of ports, and the exchange with other hosts."""

    def __init__(
        self,
        config: PathsConfig,
        devices: Sequence[str],
        journal: Journal,
        post: Callable[[str, bytes], None],
        host_of: Callable[[str], str],
        mine: Callable[[str], bool],
    ) -> None:
        """Nothing is in force before `up`."""
        self.devices = tuple(devices)
        self._config = config
        self._journal = journal
        self._ports = (config.first_port, config.last_port)
        self._ends = post, host_of, mine
        self.kernel: SteerKernel
        self.steering: Steering

    async def up(self) -> None:
        """Put it in force.  Raises BpfError and HostccError; nothing is in force then."""
        self._give_back_other_ports()
        self._journal.begin(*planned(self._config, self.devices))
        try:
            reserve.write(reserve.planned(*self._ports)[1])
            await in_thread(self._load)
            by_label = self._config.ipv6 == "label"
            self.steering = Steering(self.kernel, *self._ends, labels=by_label)
        except BaseException as error:
            if hasattr(self, "kernel"):
                self.kernel.close()
            clean_up(self._journal, f"failed: {error}")
            raise

    def _give_back_other_ports(self) -> None:
        """Undo an earlier agent's reservation of another range, or undoing this one would leave it.

        Raises HostccError.
        """
        now, wanted = reserve.planned(*self._ports)
        if now != wanted and path_kinds.PORTS in self._journal.active:
            for problem in mechanisms.undo_all(
                self._journal, (path_kinds.PORTS,), "another range is configured"
            ):
                log.warning("not undone", reason=problem)

    def _load(self) -> None:
        stale_s = self._config.stale_s
        self.kernel = SteerKernel(self.devices, stale_s=stale_s, keep_s=KEEP_S)

    def check(self) -> list[Difference]:
        """List what is no longer as it was made."""
        found = [
            Difference(
                f"{path_kinds.HOOKS}:{problem.rpartition(' ')[2]}", "BPF", "attached", problem
            )
            for problem in self.kernel.check()
        ]
        now, wanted = reserve.planned(*self._ports)
        if now != wanted:
            found.append(Difference(path_kinds.PORTS, str(reserve.SYSCTL), wanted, now))
        return found

    def forget_unused(self) -> None:
        """Drop translations that have ended by themselves.  Raises BpfError."""
        for one in self.kernel.arriving():
            if one.idle_s > KEEP_S:
                self.kernel.forget(one.wire)

    async def down(self, say_goodbye: Callable[[], None], *, keep: bool = False) -> list[str]:
        """Revert every flow, tell peers, undo everything; returns problems.

        `keep`: hooks stay, and go on translating for peers until the next agent takes over.
        Takes DRAIN_S where something is translated.
        """
        with suppress(BpfError):
            self.steering.revert_all()
        with suppress(BpfError):
            if not keep:
                say_goodbye()
                await asyncio.sleep(DRAIN_S if self.kernel.arriving() else 0.0)
        self.kernel.close()
        if keep:
            return []
        try:
            return clean_up(self._journal, "the agent stopped")
        except (BpfError, HostccError, OSError) as error:
            return [str(error)]
