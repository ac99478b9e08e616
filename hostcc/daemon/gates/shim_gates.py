"""Gates in the shim's plan: of jobs that send by RDMA.

Each process says in a file of its own where it is in its burst.  Nobody is woken by that, so
whoever has armed gates reads these files every few milliseconds (`POLL_S`).  What a process says is
believed as far as it can have happened since the last reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hostcc.daemon.changes import kinds
from hostcc.daemon.gates.job_gates import Burst, BurstEvent, Gate, Holds
from hostcc.model import Difference
from hostcc.verbs.burst_states import BurstFile, BurstState, Phase, open_bursts
from hostcc.verbs.plan_region import BurstGate, PlanRegion
from hostcc.verbs.process_counts import user_of

POLL_S = 0.004
"""Between two readings while a gate is armed: a fifth of how late news may be."""
MAX_PROCESSES = 256
"""That are read: more than a host has GPUs."""


class ShimGates:
    """The gates of jobs with the shim.

    `region`: the plan in shared memory, while there is one; `processes`: job -> its processes whose
    files are genuine -> these files of counters.
    """

    def __init__(
        self,
        region: Callable[[], PlanRegion | None],
        processes: Callable[[], Mapping[str, Mapping[int, Path]]],
    ) -> None:
        self._region, self._processes = region, processes
        self._files: dict[int, tuple[str, BurstFile]] = {}
        """Process -> its job, its file."""
        self._written: dict[str, Gate] = {}
        self._written_to: PlanRegion | None = None
        self._last: dict[str, BurstState] = {}
        """Of jobs with armed gates, as of the last reading."""
        self._read_s = 0.0
        self._held: dict[str, Holds] = {}
        """What was held of each job at the last look, also by processes that have ended since; of
        jobs with others that go on."""

    @property
    def jobs(self) -> frozenset[str]:
        """Jobs that processes with the shim send for."""
        return frozenset(job for job, _ in self._files.values())

    def is_armed(self) -> bool:
        """Whether there is something to read."""
        return bool(self._written)

    def look(self) -> None:
        """Find out which processes there are."""
        files = self._processes()
        wanted = {pid: job for job, those in files.items() for pid in those}
        wanted = dict(sorted(wanted.items())[:MAX_PROCESSES])
        held = self.holds()
        for pid, (job, file) in list(self._files.items()):
            if wanted.get(pid) != job or not file.is_current():
                file.close()
                del self._files[pid]
        self._held = {job: held[job] for job in self.jobs & held.keys()}
        for pid in wanted.keys() - self._files.keys():
            opened = open_bursts(files[wanted[pid]][pid])
            if opened is not None and opened.uid == user_of(pid):
                self._files[pid] = wanted[pid], opened
            elif opened is not None:
                opened.close()

    def arm(self, gates: Mapping[str, Gate]) -> None:
        """Write these gates, and disarm all others."""
        region = self._region()
        if region is not self._written_to:  # another one has no gates yet
            self._written, self._written_to = {}, region
        if region is None:
            return
        for job in self._written.keys() - gates.keys():
            region.set_gate(job, None)
            del self._written[job]
            self._last.pop(job, None)
        for job, gate in gates.items():
            if gate.differs(self._written.get(job)) and region.set_gate(job, _in_region(gate)):
                self._written[job] = gate

    def bursts(self, now_s: float) -> list[Burst]:
        """Read what has happened since the last time; `now_s`: CLOCK_MONOTONIC."""
        found: list[Burst] = []
        for job, now in self._states().items():
            if job not in self._written:
                continue
            before, self._last[job] = self._last.get(job), now
            for event, at_s in _events(before, now) if before is not None else ():
                found.append(Burst(job, event, min(max(at_s, self._read_s), now_s)))
        self._read_s = now_s
        return found

    def holds(self) -> dict[str, Holds]:
        """Return what was held of each job; no less once a process of several has ended."""
        return {
            job: _most(Holds(one.holds, one.held_ns / 1e9, one.bursts), self._held.get(job))
            for job, one in self._states().items()
        }

    def differences(self) -> list[Difference]:
        """Find gates that are not as they were written."""
        region = self._region()
        if region is None or region is not self._written_to:
            return []
        return [
            Difference(kinds.GATES, f"gate of job {job}", "as it was written", "something else")
            for job, gate in sorted(self._written.items())
            if region.gate(job) != _in_region(gate)
        ]

    def close(self) -> None:
        """Disarm all gates, and read no more."""
        self.arm({})
        for _, file in self._files.values():
            file.close()
        self._files, self._last, self._held = {}, {}, {}

    def _states(self) -> dict[str, BurstState]:
        found: dict[str, list[BurstState]] = {}
        for job, file in self._files.values():
            if (state := file.read()) is not None:
                found.setdefault(job, []).append(state)
        return {job: together(states) for job, states in found.items()}


def together(states: Sequence[BurstState]) -> BurstState:
    """Return the state of a job with these processes: it sends while one of them does, and waits
    while none sends and one waits."""
    counts = (max(of) for of in zip(*(one[2:] for one in states), strict=True))
    for phase in (Phase.SENDING, Phase.HELD):
        if since := [one.since_ns for one in states if one.phase is phase]:
            return BurstState(phase, min(since), *counts)
    return BurstState(Phase.IDLE, max(one.since_ns for one in states), *counts)


def _most(one: Holds, other: Holds | None) -> Holds:
    if other is None:
        return one
    turns, iterations = max(one.turns, other.turns), max(one.iterations, other.iterations)
    return Holds(turns, max(one.held_s, other.held_s), iterations)


def _events(before: BurstState, now: BurstState) -> list[tuple[BurstEvent, float]]:
    """What has happened to a job between two readings, and when; seconds."""
    at_s, found = now.since_ns / 1e9, []
    waited_s = (now.held_ns - before.held_ns) / 1e9
    if waited_s > 0 and before.phase is not Phase.HELD:  # within the time between two readings
        found.append((BurstEvent.HELD, at_s - waited_s))
    again = now.bursts > before.bursts and now.since_ns > before.since_ns
    if now.phase is Phase.IDLE:
        if found or before.phase is not Phase.IDLE:
            found.append((BurstEvent.END, at_s))
    elif now.phase is not before.phase or again:
        found.append((BurstEvent.HELD if now.phase is Phase.HELD else BurstEvent.BEGIN, at_s))
    return found


def _in_region(gate: Gate) -> BurstGate:
    return BurstGate(
        int(gate.closed_until_s * 1e9),
        max(1, round(gate.exchange.period_s * 1e9)),
        round(gate.usual_silence_s * 1e9),
    )
