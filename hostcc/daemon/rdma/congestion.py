"""The part that sets DCQCN parameters of NICs, for ports that one job sends through.

In static mode the timer is divided by the job's weight; in mode mltcp the increase follows
F(bytes_ratio) in steps, where the configuration asks for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from hostcc.answers.parts import DcqcnPart
from hostcc.daemon.rdma.pacing import Sizes
from hostcc.daemon.rdma.pairs import Sender
from hostcc.daemon.rdma.senders import SenderTracker
from hostcc.daemon.supervisor import Host
from hostcc.errors import HostccError
from hostcc.limits import WEIGHT_MAX, WEIGHT_MIN
from hostcc.log import get_logger
from hostcc.measure.rdma_counters import read_ports
from hostcc.mltcp import dcqcn
from hostcc.mltcp.dcqcn import KIND, Knob, Port
from hostcc.mltcp.dcqcn_knobs import Knobs
from hostcc.mltcp.params import JobParams, Mode
from hostcc.mltcp.shape import f_of
from hostcc.model import Change, Difference
from hostcc.verbs.process_counts import read_iteration

log = get_logger("dcqcn")

TICK_S, FOLLOW_TICK_S = 0.5, 0.05
"""The second while parameters follow a job's progress."""
FIND_PORTS_S = 30.0


class Congestion:
    """Sets parameters as the mode asks for; stands aside where somebody else sets them."""

    name = "dcqcn"

    def __init__(
        self,
        host: Host,
        tracker: SenderTracker,
        knobs: Knobs | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._tracker = host, tracker
        self._knobs = knobs or Knobs()
        self._clock = clock
        self._ports: tuple[str, ...] = ()
        self._ports_at = 0.0
        self._aside: dict[str, str] = {}
        """Port -> why it is left alone, until somebody chooses another mode."""
        self._reason: dict[str, str] = {}
        self._steps: dict[str, int] = {}
        self._sizes = Sizes()
        self._mode: Mode | None = None

    @property
    def every_s(self) -> float:
        """Seconds between ticks: fewer while parameters follow a job."""
        return FOLLOW_TICK_S if self._steps else TICK_S

    def disabled_reason(self) -> str:
        """Return why nothing may be set, or there is nothing to set."""
        if self._host.config.rdma.dcqcn == "off":
            return "rdma.dcqcn is off"
        if why := self._tracker.disabled_reason():
            return why
        now = self._clock()
        if now >= self._ports_at:
            self._ports, self._ports_at = self._knobs.ports(), now + FIND_PORTS_S
        return "" if self._ports else "no NIC shows DCQCN parameters"

    def start(self) -> None:
        """Undo what an agent that died has left."""
        self._aside, self._steps = {}, {}
        self._undo(self._active())

    async def tick(self) -> None:
        """Set what is not as it should be."""
        engine = self._host.engine
        if engine is not None and engine.table.mode != self._mode:
            self._mode, self._aside = engine.table.mode, {}
        self._reason = dict(self._aside)
        senders = self._tracker.senders
        sizes = self._sizes.take(senders)
        jobs = self._jobs(senders)
        for port in self._ports:
            if port not in self._aside:
                self._one(Port(port, tuple(sorted(jobs.get(port, ())))), senders, sizes)
        for change in [c for c in self._active() if dcqcn.target_of(c)[0] not in self._ports]:
            self._undo([change])

    def stop(self) -> None:
        """Write back the values that were there before."""
        self._steps = {}
        self._undo(self._active())

    def verify(self) -> list[Difference]:
        """Check that parameters are as they were set."""
        active = self._active()
        ports = {dcqcn.target_of(change)[0] for change in active}
        return dcqcn.differences(active, {port: self._knobs.read(port) for port in ports})

    def view(self) -> DcqcnPart:
        """Show what is set where, and why not."""
        return DcqcnPart(
            ports=len(self._ports),
            set={
                change.target: self._knobs.read(dcqcn.target_of(change)[0]).get(
                    dcqcn.target_of(change)[1]
                )
                for change in self._active()
            },
            left_alone=dict(self._reason),
        )

    # One port.

    def _one(self, port: Port, senders: tuple[Sender, ...], sizes: Mapping[str, int]) -> None:
        active = self._active(port.name)
        found = self._knobs.read(port.name)
        gone = dcqcn.differences(active, {port.name: found})
        if gone:
            self._stand_aside(port.name, active, gone)
            return
        plain = {**found, **{dcqcn.target_of(one)[1]: _whole(one.before) for one in active}}
        try:
            wanted = self._wanted(port, plain)
        except HostccError as error:
            self._reason[port.name], wanted = str(error), []
        if [replace(one, at=0.0) for one in active] != wanted:
            self._undo(active)
            self._steps.pop(port.name, None)
            if wanted:
                self._knobs.apply(wanted, self._host.journal)
                log.info("DCQCN", port=port.name, why=wanted[0].why)
        if any(isinstance(one.after, Mapping) for one in wanted):
            self._follow(port, wanted, senders, sizes)

    def _wanted(self, port: Port, plain: Mapping[Knob, int]) -> list[Change]:
        """Raises InputError for a port that several jobs use."""
        params = [one for job in port.jobs if (one := self._params(job)) is not None]
        if not params:
            return []
        first, config = params[0], self._host.config.rdma
        if first.mode is Mode.STATIC:
            why = f"job {first.name}: weight {first.static_weight:g}"
            return dcqcn.changes(port, plain, dcqcn.of_weight(plain, first.static_weight), why)
        if first.mode is Mode.MLTCP and config.dcqcn == "on":
            steps = [
                dcqcn.of_f(plain, _f(first, dcqcn.middle(step, config.dcqcn_steps)))
                for step in range(config.dcqcn_steps)
            ]
            return dcqcn.stepped(port, plain, steps, f"job {first.name}: F(bytes_ratio)")
        return []

    def _follow(
        self,
        port: Port,
        wanted: Iterable[Change],
        senders: tuple[Sender, ...],
        sizes: Mapping[str, int],
    ) -> None:
        """Set the step that the job has come to."""
        job, steps = port.jobs[0], self._host.config.rdma.dcqcn_steps
        sent = [
            got
            for one in senders
            if one.job == job and (got := read_iteration(one.counts)) is not None
        ]
        if job not in sizes or not sent:
            return
        now = dcqcn.step_of(max(sent) / sizes[job], steps, self._steps.get(port.name))
        if now != self._steps.get(port.name):
            for change in wanted:
                assert isinstance(change.after, Mapping)
                self._knobs.set(change, _whole(change.after[f"step {now}"]))
            self._steps[port.name] = now

    def _stand_aside(self, port: str, active: list[Change], gone: list[Difference]) -> None:
        """Somebody else has set something: it is theirs, and the rest goes back."""
        self._aside[port] = self._reason[port] = f"somebody else set {gone[0].target}"
        self._steps.pop(port, None)
        log.warning("standing aside", port=port, reason=self._aside[port])
        self._undo(active)

    def _undo(self, those: list[Change]) -> None:
        for change in self._knobs.undo(those, self._host.journal):
            log.warning("not undone", target=change.target)

    # What there is.

    def _active(self, port: str = "") -> list[Change]:
        changes = [one for one in self._host.journal.active.values() if one.what == KIND]
        return [one for one in changes if not port or dcqcn.target_of(one)[0] == port]

    def _params(self, job: str) -> JobParams | None:
        engine = self._host.engine
        known = engine.table.jobs.get(job) if engine is not None else None
        return known.params if known is not None else None

    def _jobs(self, senders: Iterable[Sender]) -> dict[str, set[str]]:
        """Interface -> jobs that send through it."""
        nets = {(one.device, one.port): one.netdev for one in read_ports(self._tracker.sysfs)}
        found: dict[str, set[str]] = {}
        for one in senders:
            for pair in one.pairs:
                net = nets.get((pair.device, pair.device_port))
                if net:
                    found.setdefault(net, set()).add(one.job)
        return found


def _f(params: JobParams, ratio: float) -> float:
    value = float(f_of(params.shape, [ratio])[0]) * params.weight
    return min(max(value, WEIGHT_MIN), WEIGHT_MAX)


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
