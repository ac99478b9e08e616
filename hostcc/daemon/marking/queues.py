"""The part that gives this host's devices egress queues by level."""

from __future__ import annotations

from hostcc.answers.parts import EgressPart
from hostcc.config.schema import Config
from hostcc.daemon.changes import mechanisms
from hostcc.daemon.planning import levels
from hostcc.daemon.supervisor import Host, in_thread
from hostcc.errors import HostccError
from hostcc.log import get_logger
from hostcc.model import Change, Difference
from hostcc.paths import egress_kernel, egress_queues

log = get_logger("egress")

TICK_S = 5.0
Basis = tuple[str, float, tuple[int, ...]]
"""Kind, rate as configured, DSCP of the levels, highest first."""


class LevelQueues:
    """Queues of the configured devices.  They stay whether a plan holds or not: without marks
    everything is in one class, which may use the whole device."""

    name = "egress"
    every_s = TICK_S

    def __init__(self, host: Host) -> None:
        self._host = host
        self._made: dict[str, Basis] = {}
        self._aside: dict[str, str] = {}
        """Device -> why it is left alone."""

    def disabled_reason(self) -> str:
        """Why it does not run: off in the configuration, or nothing may be changed."""
        if self._host.engine is None:
            return "nothing is changed on this host"
        wanted = self._host.config.egress.queues != "off" or self._left()
        return "" if wanted else "egress.queues is off"

    def start(self) -> None:
        """Begin with the queues that an earlier agent has left."""
        self._made, self._aside = {}, {}

    async def tick(self) -> None:
        """Bring devices in line with the configuration."""
        config = self._host.config
        devices = config.egress.devices if config.egress.queues != "off" else ()
        for device in [device for device in self._left() if device not in devices]:
            await self._remove(device, "not in the configuration")
        for device in devices:
            if self._made.get(device) != basis(config):
                await self._make(device)
            elif device not in self._aside:
                await self._look(device)

    async def stop(self) -> None:
        """Back to the kernel's default."""
        for device in self._left():
            await self._remove(device, "it ended")

    async def verify(self) -> list[Difference]:
        """Check that devices still have our queues."""
        found = []
        for device in self._left():
            there = await in_thread(egress_kernel.root, device)
            if there is None or not there.ours:
                kind = there.kind if there is not None else "no such device"
                wanted = f"{self._host.config.egress.queues}, {egress_queues.MAJOR:x}:"
                found.append(Difference(f"{egress_queues.QUEUES}:{device}", device, wanted, kind))
        return found

    def view(self) -> EgressPart:
        """Which devices have queues, and which not."""
        words = "; ".join(f"{device}: {why}" for device, why in self._aside.items())
        aside = dict(self._aside)
        return EgressPart(devices=self._left(), left_alone=aside, reason=words or None)

    def _left(self) -> list[str]:
        """Devices with our queues, by the journal."""
        active = self._host.journal.active.values()
        return [change.target for change in active if change.what == egress_queues.QUEUES]

    async def _make(self, device: str) -> None:
        config = self._host.config
        try:
            there = await in_thread(egress_kernel.root, device)
            if there is not None and there.ours:  # of an earlier agent, or configuration
                await self._remove(device, "made anew")
                self._made[device] = basis(config)  # or they would be made anew at every turn
                there = await in_thread(egress_kernel.root, device)
            # Refused, it is tried again: the device may be missing, or without a link.
            change, lines = await in_thread(planned, config, device, there)
            self._made[device] = basis(config)
            self._host.journal.begin(change)
            # Not undone when this is cancelled: the queues may be there.
            try:
                await in_thread(egress_kernel.apply, lines)
            except Exception as error:
                # tc stops at the line that fails: what the others made is there.
                if why := await in_thread(egress_kernel.remove, device):
                    log.warning("not undone", device=device, reason=why)
                else:
                    self._host.journal.undone([change.id], f"failed: {error}")
                raise
            self._aside.pop(device, None)
            log.info("queues by level", device=device, kind=config.egress.queues)
        except HostccError as error:
            self._stand_aside(device, str(error))

    async def _look(self, device: str) -> None:
        """Stand aside if somebody else has put another queue there."""
        there = await in_thread(egress_kernel.root, device)
        change_id = f"{egress_queues.QUEUES}:{device}"
        if there is None:
            self._host.journal.undone([change_id], "gone with the device")
            del self._made[device]
        elif not there.ours:
            self._host.journal.undone([change_id], "replaced by somebody else")
            self._stand_aside(device, f"somebody else replaced its queues: {there.kind}")

    def _stand_aside(self, device: str, why: str) -> None:
        if self._aside.get(device) == why:
            return
        self._aside[device] = why
        log.warning("standing aside", device=device, reason=why)
        self._host.journal.note(device, why)

    async def _remove(self, device: str, how: str) -> None:
        self._made.pop(device, None)
        made = egress_queues.found(device)
        made = self._host.journal.active.get(made.id, made)
        if why := await in_thread(mechanisms.remove_queues, made):
            log.warning("not undone", device=device, reason=why)
            return
        self._host.journal.undone([made.id], how)


def basis(config: Config) -> Basis:
    """Settings that queues are made by; they are made anew when it changes."""
    table = levels.table(config.plan, config.marking)
    return config.egress.queues, config.egress.rate_mbit, tuple(table.values())


def planned(
    config: Config, device: str, there: egress_kernel.Root | None
) -> tuple[Change, list[str]]:
    """The change of a device with that root queue, and the `tc -batch` lines that make it.

    Raises HostccError for a device that is to be left alone, and InputError.
    """
    if there is None:
        raise HostccError("there is no such device")
    if not there.default:
        raise HostccError(f"its root queue is {there.kind} {there.handle}, which somebody chose")
    kind, rate, dscp = basis(config)
    queues = egress_queues.Queues(kind)
    change = egress_queues.change(queues, device, there.kind, len(dscp))
    if queues is egress_queues.Queues.HTB and not rate:
        rate = egress_kernel.speed_mbit(device)
        if not rate:
            raise HostccError("it does not say its speed: set egress.rate_mbit")
    return change, egress_queues.commands(queues, device, [value << 2 for value in dscp], rate)
