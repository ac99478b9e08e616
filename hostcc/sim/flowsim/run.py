"""Run jobs on a fabric under a controller: arrays in, arrays out.

The same model as hostcc.sim.cluster_simulation, hundreds of times as fast. Deterministic: no
clock, no random numbers, one thread.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from hostcc.errors import HostccError, InputError
from hostcc.sim.flowsim import library
from hostcc.sim.flowsim.library import Stop
from hostcc.sim.flowsim.workload import (
    MOST_BYTES,
    MOST_SECONDS,
    WEIGHTS,
    Fabric,
    Flags,
    Floats,
    Ints,
    Workload,
    check_routes,
    checked,
    within,
)
from hostcc.sim.periodic import Controller, Orders

LEVELS = 4096
"""Levels that there are; flowsim.h has the same."""
LEAST_AHEAD_S = 2e-9
"""Least time from one call of the controller to the one that it asks for."""
EVENTS_AT_A_TIME = 2_000_000
"""Between looks at whether somebody interrupts."""
RECORDS_AT_A_TIME = 65_536
MOST_RECORDS = 20_000_000
MOST_STEPS = 1024


class DetailedController(Protocol):
    """A controller that is also told who is sending."""

    def __call__(self, now: float, running: Ints, sending: Ints) -> Orders:
        """Return orders for the jobs (indices) that run and that send at `now`."""


@dataclass(frozen=True)
class Options:
    """How a simulation runs."""

    start: float = 0.0
    """From when results are counted, seconds; not negative."""
    samples: Sequence[float] | Floats = ()
    """Times at which totals are read, rising, from `start` to the end."""
    ramp: Sequence[float] = (1.0,)
    """Factors of a flow's weight by the share of its bytes that is sent, in equal steps (MLTCP)."""
    recorded: Sequence[int] | Ints = ()
    """Jobs whose iterations are listed."""
    tell_sending: bool = False
    """Whether the controller is called when jobs begin and end sending, too."""
    checked: bool = False
    """Whether rates are proved at every event; slow."""
    progress: Callable[[float], None] | None = None
    """Called with the simulated time now and then."""


@dataclass(frozen=True)
class Totals:
    """What was done from `Options.start` to a time."""

    time: float
    compute_seconds: Floats
    """(J,)"""
    iterations: Ints
    """(J,) that have ended."""
    sent: Floats
    """(J,) bytes of all flows."""
    carried: Floats
    """(L,) bytes."""

    def since(self, before: Totals) -> Totals:
        """Return what was done after `before`."""
        return Totals(
            self.time,
            self.compute_seconds - before.compute_seconds,
            self.iterations - before.iterations,
            self.sent - before.sent,
            self.carried - before.carried,
        )


@dataclass(frozen=True)
class Outcome:
    """Results; those by job and link are of the time from `Options.start` to the end."""

    compute_seconds: Floats
    """(J,)"""
    iterations: Ints
    """(J,) that ended."""
    sent: Floats
    """(J,) bytes of all flows."""
    carried: Floats
    """(L,) bytes."""
    finished: Floats
    """(J,) when each job left; NaN: it did not."""
    recorded_job: Ints
    """(N,) jobs of the iterations that ended, in order; all since time 0."""
    recorded_end: Floats
    """(N,) when each ended."""
    samples: tuple[Totals, ...]
    events: int
    refills: int
    """Times that rates were computed."""


def simulate(
    fabric: Fabric,
    work: Workload,
    end: float,
    controller: Controller | None = None,
    options: Options | None = None,
    *,
    detailed: DetailedController | None = None,
) -> Outcome:
    """Simulate from 0 to `end` (seconds).

    The controller is called as that of hostcc.sim.cluster_simulation; `detailed` takes its place
    where it needs to know who is sending. Raises InputError for what cannot be simulated.
    """
    options = options or Options()
    if not 0 <= options.start <= end <= MOST_SECONDS:
        raise InputError(f"end: expected 0 <= start <= end <= {MOST_SECONDS:g}, got {end:g}")
    times = np.array(options.samples, np.float64).reshape(-1)
    if len(times) and not (
        (np.diff(times) >= 0).all() and times[0] >= options.start and times[-1] <= end
    ):
        raise InputError("samples: expected rising times between start and end")
    with _Simulation(fabric, checked(work, fabric), options, controller, detailed) as running:
        running.run_to(options.start)
        before = running.totals()
        samples = []
        for time in times.tolist():
            running.run_to(time)
            samples.append(running.totals().since(before))
        running.run_to(end)
        return running.outcome(before, tuple(samples))


@dataclass
class _Records:
    jobs: list[Ints] = field(default_factory=list)
    times: list[Floats] = field(default_factory=list)
    count: int = 0


class _Simulation:
    """One simulation in the compiled part, and who controls it."""

    def __init__(
        self,
        fabric: Fabric,
        work: Workload,
        options: Options,
        controller: Controller | None,
        detailed: DetailedController | None,
    ) -> None:
        ramp = np.array(options.ramp, np.float64).reshape(-1)
        if not 1 <= len(ramp) <= MOST_STEPS:
            raise InputError(f"ramp: expected 1 to {MOST_STEPS} steps, got {len(ramp)}")
        within("ramp", ramp, *WEIGHTS)
        recorded = np.zeros(len(work.job_start), np.uint8)
        listed = np.array(options.recorded, np.int64).reshape(-1)
        within("recorded", listed, 0, len(recorded) - 1)
        recorded[listed] = 1
        self._fabric, self._work, self._options = fabric, work, options
        self._controller, self._detailed = controller, detailed
        self._again = math.inf
        self._records = _Records()
        self._library = library.load()
        arrays = {
            **{name: getattr(work, name) for name in work.__dataclass_fields__},
            "job_recorded": recorded,
            "link_capacity": fabric.capacity,
            "link_delay": fabric.delay,
            "ramp": ramp,
        }
        counts = {
            "jobs": len(work.job_start),
            "phases": len(work.phase_start),
            "rings": len(work.ring_rounds),
            "flows": len(work.flow_bytes),
            "links": len(fabric.capacity),
            "ramp_steps": len(ramp),
            "records": RECORDS_AT_A_TIME,
            "checked": options.checked,
            "tell_sending": options.tell_sending,
        }
        given = library.Input(
            **counts, **{name: array.ctypes.data for name, array in arrays.items()}
        )
        self._state = self._library.hcc_sim_make(ctypes.byref(given))
        if not self._state:
            raise HostccError("no memory for the simulation")

    def __enter__(self) -> _Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.hcc_sim_free(self._state)
        self._state = None

    def run_to(self, until: float) -> None:
        """Simulate until a time; the controller is called on the way."""
        while True:
            stop = self._library.hcc_sim_run(self._state, until, self._again, EVENTS_AT_A_TIME)
            if stop == Stop.TIME:
                return
            if stop in (Stop.JOBS, Stop.SENDING):
                self._control()
            elif stop == Stop.RECORDS:
                self._drain()
            elif stop == Stop.EVENTS:
                if self._options.progress is not None:
                    self._options.progress(self._library.hcc_sim_now(self._state))
            else:
                raise self._failure(stop)

    def _failure(self, stop: int) -> HostccError:
        now = self._library.hcc_sim_now(self._state)
        if stop == Stop.ENDLESS:
            job = self._library.hcc_sim_culprit(self._state)
            return InputError(f"job {job}: expected iterations that take time, at {now:.9g} s")
        if stop == Stop.UNFAIR:
            return HostccError(f"simulation: rates or bytes at {now:.9g} s are not the model's")
        return HostccError(f"no memory for the simulation at {now:.9g} s")

    def _control(self) -> None:
        self._again = math.inf
        if self._controller is None and self._detailed is None:
            return
        now = self._library.hcc_sim_now(self._state)
        flags = np.zeros((2, len(self._work.job_start)), np.uint8)
        self._library.hcc_sim_running(self._state, flags[0].ctypes.data, flags[1].ctypes.data)
        running, sending = np.flatnonzero(flags[0]), np.flatnonzero(flags[1])
        if self._detailed is not None:
            orders = self._detailed(now, running, sending)
        elif self._controller is not None:
            orders = self._controller(now, running.tolist())
        else:
            return
        self._give(orders)
        least = max(LEAST_AHEAD_S, 2**-47 * now)
        if not orders.again >= now + least:
            raise InputError(f"orders: again: expected {least:g} s or more after {now:.9g} s")
        self._again = orders.again

    def _give(self, orders: Orders) -> None:
        jobs, links = len(self._work.job_start), len(self._fabric.capacity)
        self._give_values("levels", orders.levels, jobs, 0, LEVELS - 1)
        self._give_values("weights", orders.weights, jobs, *WEIGHTS)
        self._give_values("shifts", orders.shifts, jobs, 0, MOST_SECONDS)
        self._give_values("capacities", orders.capacity, links, 0, MOST_BYTES)
        if orders.grids:
            self._give_grids(orders)
        if orders.routes:
            self._give_routes(orders)

    def _give_values(
        self, name: str, values: Mapping[int, float], count: int, least: float, most: float
    ) -> None:
        if not values:
            return
        where = _keys(name, values, count)
        given: Floats | Ints = np.array(list(values.values()), np.float64)
        within(f"orders: {name}", given, least, most)
        if name == "levels":
            given = given.astype(np.int64)
        function = getattr(self._library, f"hcc_sim_{name}")
        function(self._state, len(where), where.ctypes.data, given.ctypes.data)

    def _give_grids(self, orders: Orders) -> None:
        where = _keys("grids", orders.grids, len(self._work.job_start))
        grids = orders.grids.values()
        table = np.array([(g.period, g.origin, g.slack) for g in grids], np.float64).T.copy()
        within("orders: grids: period", table[0], 1e-6, MOST_SECONDS, zero=True)
        within("orders: grids: origin", table[1], -MOST_SECONDS, MOST_SECONDS)
        within("orders: grids: slack", table[2], 0, 1)
        self._library.hcc_sim_grids(
            self._state, len(where), where.ctypes.data, *(row.ctypes.data for row in table)
        )

    def _give_routes(self, orders: Orders) -> None:
        place = np.array(list(orders.routes), np.int64).reshape(-1, 2)
        within("orders: routes: job", place[:, 0], 0, len(self._work.job_start) - 1)
        first = self._work.job_flow
        flows = first[place[:, 0]] + place[:, 1]
        if ((place[:, 1] < 0) | (flows >= first[place[:, 0] + 1])).any():
            raise InputError("orders: routes: expected flows that the jobs have")
        routes = list(orders.routes.values())
        offsets = np.cumsum([0, *map(len, routes)], dtype=np.int64)
        links = np.array([link for route in routes for link in route], np.int64)
        check_routes("orders: routes", offsets, links, len(self._fabric.capacity))
        self._library.hcc_sim_routes(
            self._state,
            len(flows),
            flows.ctypes.data,
            offsets.ctypes.data,
            links.ctypes.data,
            int(orders.at_once),
        )

    def _drain(self) -> None:
        jobs, times = np.empty(RECORDS_AT_A_TIME, np.int32), np.empty(RECORDS_AT_A_TIME)
        count = self._library.hcc_sim_records(self._state, jobs.ctypes.data, times.ctypes.data)
        self._records.count += count
        if self._records.count > MOST_RECORDS:
            raise InputError(f"recorded: expected up to {MOST_RECORDS} iterations of these jobs")
        self._records.jobs.append(jobs[:count].astype(np.int64))
        self._records.times.append(times[:count].copy())

    def _read(self) -> tuple[Totals, Floats]:
        jobs, links = len(self._work.job_start), len(self._fabric.capacity)
        compute, finished, sent = np.zeros(jobs), np.zeros(jobs), np.zeros(jobs)
        carried, iterations = np.zeros(links), np.zeros(jobs, np.int64)
        running: Flags = np.zeros(jobs, np.uint8)
        arrays = (compute, finished, sent, carried, iterations, running)
        out = library.Output(*(array.ctypes.data for array in arrays))
        self._library.hcc_sim_read(self._state, ctypes.byref(out))
        now = self._library.hcc_sim_now(self._state)
        return Totals(now, compute, iterations, sent, carried), finished

    def totals(self) -> Totals:
        """What was done from time 0 until now."""
        return self._read()[0]

    def outcome(self, before: Totals, samples: tuple[Totals, ...]) -> Outcome:
        """Results since `before`."""
        self._drain()
        totals, finished = self._read()
        now = totals.since(before)
        return Outcome(
            now.compute_seconds,
            now.iterations,
            now.sent,
            now.carried,
            finished,
            np.concatenate(self._records.jobs),
            np.concatenate(self._records.times),
            samples,
            self._library.hcc_sim_events(self._state),
            self._library.hcc_sim_refills(self._state),
        )


def _keys(name: str, values: Mapping[int, object], count: int) -> Ints:
    where = np.array(list(values), np.int64)
    within(f"orders: {name}: index", where, 0, count - 1)
    return where
