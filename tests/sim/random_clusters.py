"""Random small clusters for the simulators: few round numbers, so that events coincide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from hostcc.sim.periodic import Grid, Orders, SimFlow, SimJob, SimPhase

TIMES = (0.25, 0.5, 1.0, 1.5, 0.3, 0.7, 1.1)
BYTES = (0.0, 0.5, 1.0, 2.0, 0.3, 0.9, 1.7)
RATES = (math.inf, math.inf, math.inf, 0.5, 1.0, 0.4)
WEIGHTS = (1.0, 1.0, 2.0, 0.5, 3.7, 1e3, 1e-3)
LINKS = 6


@dataclass(frozen=True)
class Case:
    """One cluster, with everything that its controller will order."""

    jobs: tuple[SimJob, ...]
    capacity: tuple[float, ...]
    delay: tuple[float, ...]
    orders: tuple[Orders, ...]
    """At the first call, the second ...; the last one's are repeated without `again`."""
    ramp: tuple[float, ...]
    end: float
    tell_sending: bool


@dataclass
class Scripted:
    """A controller that gives the orders of a case in turn."""

    case: Case
    calls: list[tuple[float, list[int]]] = field(default_factory=list)

    def __call__(self, now: float, running: Sequence[int]) -> Orders:
        self.calls.append((now, list(running)))
        orders = self.case.orders
        place = len(self.calls) - 1
        if place >= len(orders):
            return Orders()
        found = orders[place]
        return replace(found, again=now + found.again) if found.again < math.inf else found


def routes() -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, LINKS - 1), min_size=0, max_size=3, unique=True).map(tuple)


@st.composite
def phases(draw: st.DrawFn, start: float) -> SimPhase:
    rings = draw(st.integers(0, 3))
    flows = []
    for ring in range(rings):
        rounds = draw(st.sampled_from((1, 1, 1, 2, 3)))
        flows += [
            SimFlow(
                draw(st.sampled_from(BYTES)),
                draw(routes()),
                draw(st.sampled_from(WEIGHTS)),
                draw(st.sampled_from(RATES)),
                rounds,
                ring,
            )
            for _ in range(draw(st.integers(1, 3)))
        ]
    return SimPhase(start, tuple(flows), draw(st.booleans()))


@st.composite
def periodic_jobs(draw: st.DrawFn) -> SimJob:
    compute = draw(st.sampled_from(TIMES))
    first = draw(phases(draw(st.sampled_from((0.0, compute / 2, compute, compute)))))
    more = draw(st.integers(0, 2))
    starts = sorted(draw(st.sampled_from((0.0, 0.1, compute, 2.0))) for _ in range(more))
    start = draw(st.sampled_from((0.0, 0.0, 0.0, -0.5, 1.0, 2.0, 3.3)))
    return SimJob(
        compute,
        first.start,
        first.flows,
        start,
        draw(st.sampled_from((None, None, 1, 3, 5))),
        draw(st.sampled_from((math.inf, math.inf, math.inf, 5.0, 7.7))),
        tuple(draw(phases(one)) for one in starts),
    )


def _some(draw: st.DrawFn, count: int, values: st.SearchStrategy[float]) -> Mapping[int, float]:
    keys = draw(st.lists(st.integers(0, count - 1), max_size=3, unique=True))
    return {key: draw(values) for key in keys}


@st.composite
def changes(draw: st.DrawFn, jobs: Sequence[SimJob]) -> Orders:
    count = len(jobs)
    sizes = [sum(len(phase.flows) for phase in job.phases) for job in jobs]
    flows = [(job, flow) for job, size in enumerate(sizes) for flow in range(size)]
    moved = draw(st.lists(st.sampled_from(flows), max_size=3, unique=True)) if flows else []
    at_once = draw(st.booleans())
    some = routes().filter(lambda route: not at_once or len(route) > 0)
    grids = _some(draw, count, st.sampled_from((0.0, 1.0, 1.3)))
    return Orders(
        {key: int(level) for key, level in _some(draw, count, st.integers(0, 2)).items()},
        {key: draw(some) for key in moved},
        _some(draw, count, st.sampled_from((1.0, 2.0, 0.3))),
        _some(draw, count, st.sampled_from((0.0, 0.2, 0.5))),
        {key: Grid(period, 0.2, 0.1) for key, period in grids.items()},
        _some(draw, LINKS, st.sampled_from((0.0, 0.5, 1.0, 2.0))),
        at_once,
        draw(st.sampled_from((math.inf, 0.5, 1.0, 0.77))),
    )


@st.composite
def clusters(draw: st.DrawFn) -> Case:
    jobs = tuple(draw(st.lists(periodic_jobs(), min_size=1, max_size=4)))
    capacity = tuple(draw(st.sampled_from((0.5, 1.0, 1.0, 2.0, 0.7))) for _ in range(LINKS))
    delay = draw(st.sampled_from(((0.0,) * LINKS, (0.1, 0.0, 0.25, 0.0, 0.05, 0.5))))
    orders = tuple(draw(st.lists(changes(jobs), max_size=6)))
    ramp = draw(st.sampled_from(((1.0,), (1.0,), (0.5, 2.0), (0.25, 0.5, 1.0, 2.0))))
    return Case(jobs, capacity, delay, orders, ramp, 12.0, draw(st.booleans()))
