"""Cases that a fluid simulation gets wrong easily."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from hostcc.errors import InputError
from hostcc.sim.cluster_simulation import constant
from hostcc.sim.flowsim.run import Options, simulate
from hostcc.sim.flowsim.workload import Fabric, pack
from hostcc.sim.periodic import Grid, Orders, SimFlow, SimJob, SimPhase
from tests.sim.flowsim.runs import ends, one_flow, run

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("when", [1.0, 1.1, 1e5 + 0.1, 1e6 + 0.3])
def test_a_last_byte_that_coincides_with_its_preemption(when: float) -> None:
    """It has ended: nothing is left that a higher level could hold up for ever."""
    third = 1 / 3
    low = SimJob(0.1, 0.0, (SimFlow(0.1, (0,)), SimFlow(0.2, (0,))), when - third, 1)
    long = SimJob(0.1, 0.0, one_flow(3 * third), when - third, 1)
    high = SimJob(1.0, 0.0, one_flow(1e7), when - third + 0.1 + 0.2)
    found = run([low, high], when + 1000, (1, 0))
    assert ends(found, 0) == pytest.approx([when - third + 0.3])
    kept = run([long, high], when + 1000, (1, 0))
    assert ends(kept, 0) == []  # this one was not done


def test_a_flow_of_rate_0_has_no_end() -> None:
    jobs = [SimJob(1.0, 0.0, one_flow(1e6)), SimJob(1.0, 1.0, one_flow(0.5))]
    found = run(jobs, 100.0, (0, 1))
    assert found.iterations.tolist() == [0, 0]
    assert found.sent == pytest.approx([100.0, 0.0])
    failed = run([SimJob(1.0, 0.0, one_flow(0.5))], 10.0, capacity=(0.0,))
    assert failed.iterations.tolist() == [0]
    assert failed.sent == [0.0]
    nothing = run([SimJob(1.0, 0.0, one_flow(0.0))], 10.5, capacity=(0.0,))
    assert nothing.iterations.tolist() == [10]


def test_a_flow_alone_is_bound_by_the_narrowest_link() -> None:
    jobs = [SimJob(1.0, 0.0, one_flow(1.0, 0, 1, 2))]
    assert ends(run(jobs, 4.5, capacity=(4.0, 0.5, 1.0)), 0) == [2.0, 4.0]


def test_a_link_that_its_flows_cannot_fill_holds_nobody_up() -> None:
    jobs = [SimJob(1.0, 0.0, one_flow(1.0, 0, 2)), SimJob(1.0, 0.0, one_flow(1.0, 1, 2))]
    wide = run(jobs, 10.0, (0, 1), capacity=(1.0, 1.0, 2.0), checked=False)
    assert wide.refills <= 1  # for the levels
    assert wide.iterations.tolist() == [10, 10]
    narrow = run(jobs, 10.0, (0, 1), capacity=(1.0, 1.0, 1.9), checked=False)
    assert narrow.refills > 10
    assert narrow.iterations.tolist() == [10, 9]


def test_phases_of_a_job_do_not_contend_with_each_other() -> None:
    job = SimJob(1.0, 0.0, one_flow(1.0), later=(SimPhase(0.0, one_flow(1.0)),))
    found = run([job], 9.0, checked=False)
    assert found.iterations.tolist() == [4]
    assert found.refills == 0


def test_a_level_change_in_mid_flight() -> None:
    jobs = [SimJob(1.0, 0.0, one_flow(4.0), 0.0, 1), SimJob(1.0, 0.0, one_flow(4.0), 0.0, 1)]

    def control(now: float, running: Sequence[int]) -> Orders:
        return Orders({0: 0, 1: 1}, again=2.0) if now < 2 else Orders({0: 1, 1: 0})

    found = run(jobs, 20.0, control)
    assert ends(found, 1) == [6.0]
    assert ends(found, 0) == [8.0]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_route_change_in_mid_flight(at_once: bool) -> None:
    job = SimJob(1.0, 0.0, one_flow(4.0), 0.0, 2)
    other = SimJob(1.0, 0.0, one_flow(100.0))

    def control(now: float, running: Sequence[int]) -> Orders:
        return Orders(again=2.0) if now < 2 else Orders(routes={(0, 0): (1,)}, at_once=at_once)

    found = run([job, other], 40.0, control, capacity=(1.0, 1.0))
    if at_once:
        assert ends(found, 0) == [5.0, 9.0]
        assert found.carried.tolist() == [40.0, 7.0]
    else:
        assert ends(found, 0) == [8.0, 12.0]
        assert found.carried.tolist() == [40.0, 4.0]


def test_a_starved_flow_leaves_with_its_new_route() -> None:
    """It would not end on its old one: routes hold at once unless somebody asks otherwise."""
    jobs = [SimJob(1.0, 0.0, one_flow(100.0)), SimJob(1.0, 0.0, one_flow(4.0), 0.0, 1)]

    def control(now: float, running: Sequence[int]) -> Orders:
        return Orders({0: 0, 1: 1}, again=2.0) if now < 2 else Orders(routes={(1, 0): (1,)})

    found = run(jobs, 40.0, control, capacity=(1.0, 1.0))
    assert ends(found, 1) == [6.0]
    assert found.carried.tolist() == [40.0, 4.0]


def test_a_job_on_a_grid() -> None:
    """Iterations begin at 0.5, 2, 3.5 ... once the first is aligned."""
    grid = Orders(grids={0: Grid(1.5, 0.5, 0.05)})
    found = run([SimJob(1.0, 0.0, one_flow(1.0))], 8.0, lambda now, running: grid)
    assert ends(found, 0) == [1.5, 3.0, 4.5, 6.0, 7.5]


def test_leaving_in_the_middle() -> None:
    jobs = [SimJob(2.0, 0.0, one_flow(4.0), stop=6.5), SimJob(1.0, 1.0, one_flow())]
    found = run(jobs, 12.0, (0, 1))
    assert found.finished[0] == 6.5
    assert found.iterations[0] == 1
    assert found.compute_seconds[0] == 4.0
    assert found.sent[0] == 6.5
    assert found.iterations[1] == 3
    assert math.isnan(found.finished[1])


def test_simultaneous_arrivals_are_told_in_one_call() -> None:
    asked: list[tuple[float, list[int]]] = []

    def control(now: float, running: Sequence[int]) -> Orders:
        asked.append((now, list(running)))
        return Orders()

    run([SimJob(1.0, 1.0, (), 2.0, 3) for _ in range(5)], 10.0, control)
    assert asked == [(2.0, [0, 1, 2, 3, 4]), (5.0, [])]


def test_senders_are_told_apart() -> None:
    heard: list[tuple[float, list[int], list[int]]] = []

    def control(now: float, running: object, sending: object) -> Orders:
        heard.append((now, np.array(running).tolist(), np.array(sending).tolist()))
        return Orders()

    jobs = [SimJob(1.0, 1.0, one_flow(), 0.0, 1), SimJob(1.5, 1.5, one_flow(1.0, 1), 0.0, 1)]
    options = Options(tell_sending=True)
    simulate(Fabric.of([1.0, 1.0]), pack(jobs), 5.0, None, options, detailed=control)
    times = [(0.0, [0, 1], []), (1.0, [0, 1], [0]), (1.5, [0, 1], [0, 1])]
    assert heard[:3] == times
    assert heard[-1] == (2.5, [], [])


def test_an_iteration_that_takes_no_time() -> None:
    job = SimJob(0.0, 0.0, one_flow())
    moved = Orders(routes={(0, 0): ()})
    with pytest.raises(InputError, match="job 0: expected iterations that take time"):
        run([job], 5.0, lambda now, running: moved)
    assert run([SimJob(0.0, 0.0, ())], 5.0).iterations == [0]


def test_no_jobs_and_no_links() -> None:
    assert len(run([], 5.0, capacity=()).iterations) == 0
    assert run([SimJob(1.0, 0.0, ())], 5.5, capacity=()).iterations == [5]


def test_many_records_and_many_events() -> None:
    """More than the buffers hold at a time."""
    jobs = [SimJob(0.01, 0.0, one_flow(0.004)) for _ in range(2)]
    seen: list[float] = []
    found = run(jobs, 1000.0, checked=False, progress=seen.append)
    assert len(found.recorded_end) == found.iterations.sum() > 190_000
    assert (np.diff(found.recorded_end) >= 0).all()


def test_ten_thousand_jobs_at_one_instant() -> None:
    jobs = [SimJob(1.0, 0.5, one_flow(1e-4, job % 50), 1.0, 3) for job in range(10_000)]
    levels = constant([job % 8 for job in range(10_000)])
    found = simulate(Fabric.of([1.0] * 50), pack(jobs), 100.0, levels)
    assert (found.iterations == 3).all()
    assert found.carried == pytest.approx([200 * 3e-4] * 50)
