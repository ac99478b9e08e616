"""Remembers what the jobs of this host did in the last hour, and what they did in mode off."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from msgspec import structs

from hostcc.answers.history import History, JobHistory, ModeChange
from hostcc.answers.parts import Part as PartRow
from hostcc.answers.status import JobStatus
from hostcc.daemon.jobs.iteration_times import IterationTimes
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.profiling.alone import OffPeriod, alone_time, by_bytes, gain, off_period
from hostcc.daemon.profiling.job_rings import Floats, JobRings, Pairs
from hostcc.daemon.profiling.measurement import Measurement
from hostcc.daemon.profiling.turns.local import ENOUGH
from hostcc.daemon.supervisor import Host, in_thread
from hostcc.errors import NoJobError
from hostcc.limits import MAX_JOBS
from hostcc.measure.measured_profile import MeasuredProfile
from hostcc.measure.series import NS
from hostcc.mltcp.params import Mode
from hostcc.model import Difference

TICK_S = 1.01
"""Two of the steps in which parts wake up."""
FINE_STEP_S, FINE_POINTS = 1.01, 120
COARSE_STEP_S, COARSE_POINTS = 10.0, 361
"""An hour, and the step that goes on."""
LOOK_S = 10.0
"""Between two looks at the iterations of a job in mode off."""
LOOKS_PER_TICK = 8
LATE_S = 90.0
"""After mode off, for which its last iterations may still be analysed."""
MAX_BACKGROUND = 0.02
"""Part of a job's bytes that may belong to no iteration where these are counted by bytes."""
MAX_MODES = 32
SENT, ITERATIONS = 0, 1
"""Figures of the coarse rings; the fine ones have the first."""


@dataclass(frozen=True)
class _Counter:
    """What a job had sent, and by whose count."""

    is_acknowledged: bool
    sent: int
    at_s: float
    iterations: tuple[int, float]
    """How many, and their seconds."""


@dataclass(frozen=True)
class _OffWindow:
    """When a job was in mode off; CLOCK_MONOTONIC."""

    since_s: float
    until_s: float | None = None
    looked_s: float = 0.0
    first: _Counter | None = None
    """The first count in it."""


class HistoryKeeper:
    """A part that samples all jobs once a second, and answers what they did lately."""

    name = "history"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        measurement: Measurement,
        times: IterationTimes,
        plans: PlanStore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._measurement, self._times = host, measurement, times
        self._plans, self._clock = plans, clock
        self._fine = JobRings(FINE_STEP_S, FINE_POINTS, 1, MAX_JOBS)
        self._coarse = JobRings(COARSE_STEP_S, COARSE_POINTS, 2, MAX_JOBS)
        self._counters: dict[str, _Counter] = {}
        self._windows: dict[str, _OffWindow] = {}
        self._off: dict[str, OffPeriod] = {}
        self._modes = deque[ModeChange](maxlen=MAX_MODES)

    def disabled_reason(self) -> str:
        """Return nothing: it always runs."""
        return ""

    def start(self) -> None:
        """Begin without what was counted before."""
        self._counters.clear()

    async def tick(self) -> None:
        """Sample all jobs, look at some that are in mode off."""
        now_s = self._clock()
        off = self._note_modes()
        counters = self._counted(now_s)
        pairs: dict[str, Pairs] = {}
        for name, counter in counters.items():
            before = self._counters.get(name)
            if before is not None:
                counters[name], pairs[name] = _difference(before, counter)
        self._counters = counters
        for name, mean_s in self._look(now_s, off, counters):
            sent = pairs.get(name, [(0.0, 0.0)])[SENT]
            pairs[name] = [sent, (mean_s, 1.0)]
        self._coarse.add(now_s, pairs)
        self._fine.add(now_s, {name: both[:1] for name, both in pairs.items()})

    def stop(self) -> None:
        """Keep what is remembered."""

    def verify(self) -> list[Difference]:
        """Return nothing: it changes nothing."""
        return []

    def view(self) -> PartRow:
        """Return nothing beside name and state."""
        return PartRow()

    async def answer(self, job: str | None, limit: int, points: int, *, fine: bool) -> History:
        """Answer `history`.  Raises NoJobError for a job that is not remembered."""
        rings = self._fine if fine else self._coarse
        names = rings.names
        if job is not None and job not in names:
            raise NoJobError(f"no job {job} in the last {rings.step_s * rings.points:.0f} s here")
        shown = names[:limit] if job is None else [job]
        means, began_s = rings.recent(shown, min(points, rings.points - 1))
        end = time.time() - (self._clock() - began_s - rings.step_s)
        return History(
            step_s=rings.step_s,
            end=round(end, 3),
            total=len(names),
            jobs=await in_thread(partial(_rows, shown, means)),
            modes=list(self._modes),
        )

    def annotated(self, row: JobStatus) -> JobStatus:
        """Return a row of the status with the job's iteration time alone and its gain."""
        known = self._measurement.traffic.known(row.name)
        measured = known.measured if known is not None else None
        sure = measured is not None and measured.confidence >= ENOUGH and not measured.irregular
        off = self._off.get(row.name)
        if off and measured and sure and not off.is_of(measured.tx_bytes):
            off = None
        alone = alone_time(
            silence_s=measured.communication_start_s if measured and sure else None,
            link_time_s=measured.link_time_s if measured and sure else None,
            plan_time_s=self._planned_time_s(row.name),
            turn_s=known.track.alone_s if known is not None else None,
            off=off,
            now_s=row.recent.mean_period_s,
        )
        is_off = row.mode == str(Mode.OFF)
        found = gain(row.recent.mean_period_s, is_off=is_off, off=off, alone=alone)
        return structs.replace(
            row,
            alone_s=alone.seconds if alone else None,
            alone_how=alone.how if alone else None,
            off_s=off.mean_s if off else None,
            off_iterations=off.iterations if off else None,
            gain=found.value if found else None,
            gain_over=found.over if found else None,
        )

    def _planned_time_s(self, name: str) -> float | None:
        made = self._plans.followed.made
        if made is None or name not in (jobs := made.solution.problem.job_ids):
            return None
        return float(made.solution.times[jobs.index(name)]) or None

    def _counted(self, now_s: float) -> dict[str, _Counter]:
        """Return what each job has sent, as the congestion control counts it or else the meter."""
        found = {
            name: _Counter(False, sent, until_s, self._times.totals(name))
            for name, (sent, until_s) in self._measurement.traffic.sent().items()
        }
        engine = self._host.engine
        if engine is not None:
            acked = engine.backend.job_states()["bytes_acked"]
            for slot, job in engine.table.by_slot().items():
                if job.params is not None and job.params.mode is not Mode.OFF:
                    totals = self._times.totals(job.name)
                    found[job.name] = _Counter(True, int(acked[slot]), now_s, totals)
        return found

    def _note_modes(self) -> set[str]:
        """Note how jobs share now; returns those in mode off."""
        engine, now_s = self._host.engine, self._clock()
        mode = str(engine.table.mode if engine is not None else Mode.OFF)
        if not self._modes or self._modes[-1].mode != mode:
            self._modes.append(ModeChange(round(time.time(), 3), mode))
        if engine is None:
            off = set(self._measurement.weights())
        else:
            jobs = engine.table.jobs.values()
            off = {one.name for one in jobs if one.params and one.params.mode is Mode.OFF}
        there = set(self._measurement.weights())
        for name in [*self._windows.keys() - there]:
            del self._windows[name]
        for name in [*self._off.keys() - there]:
            del self._off[name]
        for name in off:
            if (window := self._windows.get(name)) is None or window.until_s is not None:
                self._windows[name] = _OffWindow(now_s)
        for name in self._windows.keys() - off:
            window = self._windows[name]
            if window.until_s is None:
                self._windows[name] = replace(window, until_s=now_s, looked_s=0.0)
        return off

    def _look(
        self, now_s: float, off: set[str], there: Mapping[str, _Counter]
    ) -> Iterable[tuple[str, float]]:
        """Look at the iterations of some jobs in mode off; returns their mean times now."""
        late = {
            name
            for name, window in self._windows.items()
            if window.until_s is not None and now_s - window.until_s <= LATE_S
        }
        for name in off & there.keys():
            window, counter = self._windows[name], there[name]
            if window.first is None and counter.at_s >= window.since_s:
                self._windows[name] = replace(window, first=counter)
        wanted = [name for name in there if name in off or name in late]
        due = [name for name in wanted if now_s - self._windows[name].looked_s >= LOOK_S]
        for name in due[:LOOKS_PER_TICK]:
            window = self._windows[name]
            self._windows[name] = replace(window, looked_s=now_s)
            known = self._measurement.traffic.known(name)
            if known is None:
                continue
            found = _off_period(known.measured, window, there[name], now_s)
            if found is not None:
                self._off[name] = replace(found, iteration_bytes=known.measured.tx_bytes)
                if name in off:
                    yield name, found.mean_s


def _difference(before: _Counter, now: _Counter) -> tuple[_Counter, Pairs]:
    """Return what to compare with next, and what was sent and iterated since `before`."""
    count = now.iterations[0] - before.iterations[0]
    seconds = now.iterations[1] - before.iterations[1]
    iterated = (seconds, float(count)) if count > 0 and seconds >= 0 else (0.0, 0.0)
    elapsed_s, sent = now.at_s - before.at_s, now.sent - before.sent
    if now.is_acknowledged != before.is_acknowledged or sent < 0:
        return now, [(0.0, 0.0), iterated]
    return now, [(float(sent), elapsed_s), iterated]


def _off_period(
    measured: MeasuredProfile, window: _OffWindow, counter: _Counter, now_s: float
) -> OffPeriod | None:
    """Return what the iterations of a window say: their times where they were analysed, else how
    many there were by what was sent."""
    until_s = window.until_s if window.until_s is not None else now_s
    analysed = None
    if measured.fold is not None:
        begins_s = measured.fold.begins_ns / NS
        analysed = off_period(begins_s[begins_s <= until_s].tolist(), window.since_s)
    first, counted = window.first, None
    if first is not None and counter.at_s <= until_s and not counter.is_acknowledged:
        elapsed_s, sent = counter.at_s - first.at_s, float(counter.sent - first.sent)
        if (measured.background_bytes_per_s or 0.0) * elapsed_s <= MAX_BACKGROUND * sent:
            counted = by_bytes(elapsed_s, sent, measured.tx_bytes)
    if counted is None or analysed is None:
        return analysed or counted
    return counted if counted.iterations > analysed.iterations else analysed


def _rows(names: list[str], means: Floats) -> list[JobHistory]:
    return [
        JobHistory(
            name=name,
            sent=_plain(of[SENT], 0),
            iteration_s=_plain(of[ITERATIONS], 5) if len(of) > ITERATIONS else [],
        )
        for name, of in zip(names, means, strict=True)
    ]


def _plain(values: Floats, digits: int) -> list[float | None]:
    rounded = np.round(values, digits)
    return [None if value != value else value for value in rounded.tolist()]  # noqa: PLR0124 - NaN
