"""What cannot be simulated is refused in one line, before anything is."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.errors import InputError
from hostcc.sim.flowsim.run import Options, simulate
from hostcc.sim.flowsim.workload import Fabric, Workload, pack
from hostcc.sim.periodic import Grid, Orders, SimFlow, SimJob
from tests.sim.flowsim.runs import one_flow, run

pytestmark = pytest.mark.unit

GOOD = pack([SimJob(1.0, 0.5, one_flow()), SimJob(1.0, 0.5, one_flow(2.0, 0, 1))])
FABRIC = Fabric.of([1.0, 2.0])


def wrong(name: str, *values: object) -> Workload:
    return replace(GOOD, **{name: np.array(values)})


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (wrong("job_compute", 1.0, math.nan), "jobs: compute: expected 0 to 1e.09, got nan at 1"),
        (wrong("job_compute", 1.0, -1.0), "compute"),
        (wrong("job_compute", 1.0), "offsets|values"),
        (wrong("job_compute", [1.0], [1.0]), "one row"),
        (wrong("job_compute", "a", "b"), "one row of numbers"),
        (wrong("job_start", math.inf, 0.0), "start"),
        (wrong("job_iterations", 0, 1), "at least one iteration"),
        (wrong("job_iterations", 1.5, 1.0), "whole numbers"),
        (wrong("job_stop", 0.0, 1.0), "stop after the start"),
        (wrong("job_phase", 0, 1, 3), "job_phase: expected 3 offsets from 0 up to 2"),
        (wrong("job_phase", 0, 2, 1), "job_phase"),
        (wrong("phase_start", -0.5, 0.0), "phases: start"),
        (wrong("phase_ring", 1, 1, 2), "phase_ring"),
        (wrong("ring_rounds", 0, 1), "rings: rounds"),
        (wrong("ring_flow", 0, 0, 2), "at least one flow"),
        (wrong("flow_bytes", math.inf, 1.0), "flows: bytes"),
        (wrong("flow_bytes", 1e-300, 1.0), "flows: bytes"),
        (wrong("flow_weight", 0.0, 1.0), "flows: weight"),
        (wrong("flow_rate", 0.0, 1.0), "flows: rate"),
        (wrong("flow_rate", math.nan, 1.0), "flows: rate"),
        (wrong("flow_link", 0, 4, 3), "flow_link"),
        (wrong("hop_link", 0, 0, 2), "flows: links: expected 0 to 1, got 2"),
        (wrong("hop_link", 0, 1, 1), "each once in a route"),
        (wrong("hop_link", 0, 0, -1), "flows: links"),
    ],
)
def test_workloads(work: Workload, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        simulate(FABRIC, work, 1.0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "orders",
    [
        Orders({2: 0}),
        Orders({-1: 0}),
        Orders({0: -1}),
        Orders({0: 4096}),
        Orders(weights={0: math.nan}),
        Orders(weights={0: 0.0}),
        Orders(shifts={0: -1.0}),
        Orders(shifts={0: math.inf}),
        Orders(grids={0: Grid(1e-9)}),
        Orders(grids={0: Grid(1.0, math.nan)}),
        Orders(grids={0: Grid(1.0, 0.0, 2.0)}),
        Orders(capacity={9: 1.0}),
        Orders(capacity={0: -1.0}),
        Orders(routes={(0, 1): (0,)}),
        Orders(routes={(0, -1): (0,)}),
        Orders(routes={(5, 0): (0,)}),
        Orders(routes={(0, 0): (7,)}),
        Orders(routes={(0, 0): (1, 1)}),
        Orders(routes={(0, 0): tuple(range(65))}),
        Orders(again=0.0),
        Orders(again=math.nan),
    ],
)
def test_orders(orders: Orders) -> None:
    with pytest.raises(InputError, match="orders: "):
        simulate(FABRIC, GOOD, 5.0, lambda now, running: orders)


@pytest.mark.parametrize(
    "options",
    [
        Options(start=-1.0),
        Options(start=9.0),
        Options(samples=[2.0, 1.0]),
        Options(samples=[6.0]),
        Options(samples=[math.nan]),
        Options(ramp=()),
        Options(ramp=(1.0, 0.0)),
        Options(recorded=[2]),
    ],
)
def test_options(options: Options) -> None:
    with pytest.raises(InputError):
        simulate(FABRIC, GOOD, 5.0, None, options)


def test_the_end_and_the_links() -> None:
    for end in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="end"):
            simulate(FABRIC, GOOD, end)
    for capacity, delay in (([math.nan], ()), ([-1.0], ()), ([1.0], [math.inf]), ([1.0], [0, 0])):
        with pytest.raises(InputError, match="links"):
            Fabric.of(capacity, delay)


def test_too_short_an_iteration() -> None:
    with pytest.raises(InputError, match="job 0: expected an iteration"):
        run([SimJob(1e-8, 0.0, ())], 5.0)


def test_rings_in_disorder() -> None:
    first, second = SimFlow(1.0, (0,), ring=1), SimFlow(1.0, (0,), ring=0)
    with pytest.raises(InputError, match="order of their rings"):
        pack([SimJob(1.0, 0.0, (first, second))])
    with pytest.raises(InputError, match="rounds"):
        pack([SimJob(1.0, 0.0, (SimFlow(1.0, (0,)), SimFlow(1.0, (0,), rounds=2)))])


@given(
    name=st.sampled_from([one.name for one in fields(Workload)]),
    values=st.lists(
        st.one_of(
            st.integers(-3, 5),
            st.floats(),
            st.sampled_from((2**40, -(2**40), 1e18, 1e-320)),
        ),
        max_size=5,
    ),
)
def test_any_array_is_simulated_or_refused(name: str, values: list[Any]) -> None:
    work = replace(GOOD, **{name: np.array(values)})
    try:
        found = simulate(FABRIC, work, 0.001)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert np.isfinite(found.compute_seconds).all()
