"""What can be computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.sim.periodic import Orders, SimFlow, SimJob, SimPhase
from tests.sim.flowsim.runs import ends, one_flow, run

pytestmark = pytest.mark.unit


def test_one_job() -> None:
    found = run([SimJob(2.0, 1.0, one_flow(3.0))], 40.0)
    assert ends(found, 0) == [4.0 * k for k in range(1, 11)]
    assert found.compute_seconds == [20.0]
    assert found.sent == found.carried == [30.0]


@pytest.mark.parametrize(("levels", "first"), [((0, 1), (2.0, 3.0)), ((1, 0), (3.0, 2.0))])
def test_two_on_a_link_in_order(levels: tuple[int, int], first: tuple[float, float]) -> None:
    jobs = [SimJob(1.0, 1.0, one_flow()), SimJob(1.0, 1.0, one_flow())]
    found = run(jobs, 12.5, levels)
    assert (ends(found, 0)[0], ends(found, 1)[0]) == first
    # They have found a schedule without overlap, and keep it.
    assert np.diff(ends(found, 0)) == pytest.approx(2.0)
    assert np.diff(ends(found, 1)) == pytest.approx(2.0)


def test_two_on_a_link_fair_and_weighted() -> None:
    jobs = [SimJob(1.0, 1.0, one_flow()), SimJob(1.0, 1.0, one_flow())]
    assert ends(run(jobs, 10.0), 0) == ends(run(jobs, 10.0), 1) == [3.0, 6.0, 9.0]
    weighted = [SimJob(1.0, 1.0, one_flow(weight=3.0)), SimJob(1.0, 1.0, one_flow())]
    found = run(weighted, 3.2)
    assert ends(found, 0) == pytest.approx([1 + 4 / 3])
    assert ends(found, 1) == pytest.approx([3.0])


def test_rates_of_their_own() -> None:
    """What a job does not take is left to others, of its own level and lower ones."""
    jobs = [SimJob(1.0, 1.0, one_flow(rate=0.25)), SimJob(1.0, 1.0, one_flow(0.75))]
    for levels in ((0, 0), (0, 1), (1, 1)):
        found = run(jobs, 5.0, levels)
        assert ends(found, 0) == [5.0]
        assert ends(found, 1) == [2.0, 4.0]


@pytest.mark.parametrize(
    ("levels", "end", "seconds", "share"),
    [((0, 1), 12.0, (6.0, 3.0), 0.375), ((1, 0), 12.0, (4.0, 6.0), 5 / 12)],
)
def test_example_1_of_crux(
    levels: tuple[int, int], end: float, seconds: tuple[float, float], share: float
) -> None:
    jobs = [SimJob(2.0, 2.0, one_flow(2.0), -2.0), SimJob(1.0, 1.0, one_flow(1.0), -1.0)]
    found = run(jobs, end, levels)
    assert tuple(found.compute_seconds) == seconds
    assert tuple(end - found.compute_seconds) in ((6.0, 9.0), (8.0, 6.0))
    assert found.compute_seconds.sum() / (2 * end) == pytest.approx(share)


@pytest.mark.parametrize(("levels", "idle"), [((0, 1), 7.0), ((1, 0), 6.0)])
def test_example_2_of_crux(levels: tuple[int, int], idle: float) -> None:
    """Jobs of one intensity that compute while they send: a start-up effect over 12 s."""
    jobs = [SimJob(4.0, 2.0, one_flow(1.0), -2.0), SimJob(2.0, 1.0, one_flow(3.0), -1.0)]
    found = run(jobs, 12.0, levels)
    assert 12.0 - found.compute_seconds[1] == idle
    long = run(jobs, 12_000.0, levels, checked=False)
    assert long.compute_seconds.sum() == pytest.approx(12_000.0 * (0.5 + 1.0), rel=0.01)


@pytest.mark.parametrize("hosts", [2, 3, 8])
def test_a_ring_of_n(hosts: int) -> None:
    """2 (N - 1) rounds, each as long as a flow and its delay."""
    rounds = 2 * (hosts - 1)
    flows = tuple(SimFlow(0.5, (host,), rounds=rounds) for host in range(hosts))
    jobs = [SimJob(1.0, 1.0, flows)]
    quick = run(jobs, 100.0, capacity=(1.0,) * hosts, delay=(0.125,) * hosts)
    assert ends(quick, 0)[0] == 1 + rounds * (0.5 + 0.125)
    # Barriers: one slow link holds all rounds of the whole ring up.
    slow = run(jobs, 100.0, capacity=(0.5, *(1.0,) * (hosts - 1)), delay=(0.0,) * hosts)
    assert ends(slow, 0)[0] == 1 + rounds * 1.0


def test_a_ring_under_contention() -> None:
    ring = (SimFlow(1.0, (0,), rounds=4), SimFlow(1.0, (1,), rounds=4))
    jobs = [SimJob(1.0, 0.0, ring), SimJob(10.0, 0.0, one_flow(2.0, 1))]
    assert ends(run(jobs, 9.0, capacity=(1.0, 1.0)), 0) == [6.0]  # two rounds take twice as long
    assert ends(run(jobs, 9.0, (1, 0), capacity=(1.0, 1.0)), 0) == [6.0]  # or one waits for 2 s


def test_phases() -> None:
    """The second waits for the first; one that blocks holds the computation up."""
    second = SimPhase(0.5, one_flow(0.5))
    job = SimJob(1.0, 0.25, one_flow(1.0), later=(second,))
    assert ends(run([job], 5.0), 0) == [1.75, 3.5]
    blocks = SimJob(1.0, 0.0, (), later=(SimPhase(0.25, one_flow(1.0), blocks=True),))
    found = run([blocks], 4.5)
    assert ends(found, 0) == [2.0, 4.0]
    assert found.compute_seconds == [2.25]


def test_delays_add_up_along_a_path() -> None:
    jobs = [SimJob(0.5, 0.0, one_flow(1.0, 0, 1, 2))]
    found = run(jobs, 3.0, capacity=(1.0, 2.0, 4.0), delay=(0.125, 0.25, 0.0))
    assert ends(found, 0) == [1.375, 2.75]


def test_weights_by_the_share_that_is_sent() -> None:
    """With 1:3 weights, then 3:1 after half of its bytes, as MLTCP's F does."""
    jobs = [SimJob(9.0, 0.0, one_flow(1.0)), SimJob(9.0, 1.0, one_flow(9.0))]
    found = run(jobs, 2.0, ramp=(1.0, 3.0))
    # Alone for 1 s: over. The same a quarter of a second late meets the other at weight 3.
    assert found.sent == pytest.approx([1.0, 1.0])
    late = [SimJob(9.0, 0.25, one_flow(1.0)), SimJob(9.0, 0.0, one_flow(9.0))]
    found = run(late, 1.25, ramp=(1.0, 3.0))
    # Both at 1 until it has sent half, from 0.25 to 1.25; then 3:1.
    assert found.sent == pytest.approx([0.5, 0.75])
    found = run(late, 1.25 + 2 / 3, ramp=(1.0, 3.0))
    assert found.sent == pytest.approx([1.0, 0.75 + 1 / 6])


def test_intensity_adds_up_to_work() -> None:
    """Crux's theorem 1: F_T / U_T goes to 1 on one link that one job at a time uses."""
    jobs = [
        SimJob(compute, compute, one_flow(size))
        for compute, size in ((1.0, 0.7), (0.6, 0.9), (1.7, 0.4))
    ]
    work = np.array([3.0, 5.0, 2.0])
    size = np.array([job.flows[0].bytes for job in jobs])
    found = run(jobs, 9000.0, (0, 1, 2), checked=False)
    assert found.iterations.min() >= 1000
    compute = np.array([job.compute for job in jobs])
    done = (work * found.compute_seconds / compute).sum()
    by_intensity = (work / size * found.sent).sum()
    assert by_intensity / done == pytest.approx(1.0, rel=0.01)
    # Where jobs send at once each second counts for all of them, and the theorem says nothing.
    fair = run(jobs, 9000.0, checked=False).compute_seconds
    by_time = (work / size * (9000.0 - fair)).sum()
    assert by_time / (work * fair / compute).sum() == pytest.approx(1.854, abs=1e-3)


def test_changes_in_mid_run() -> None:
    """A link that fails and returns, and a shift: in closed form or not."""
    flow = one_flow(1.0)

    def control(now: float, running: object) -> Orders:
        if now < 10:
            return Orders(again=10.5)
        if now < 12:
            return Orders(capacity={0: 0.0}, again=12.5)
        return Orders(capacity={0: 1.0}, shifts={0: 0.75})

    for proved in (True, False):
        found = run([SimJob(1.0, 0.0, flow)], 20.0, control, checked=proved)
        assert ends(found, 0) == [
            *map(float, range(1, 11)),
            13.0,
            *(13.75 + k for k in range(1, 7)),
        ]
        unseen = run([SimJob(1.0, 0.0, flow)], 20.0, control, checked=proved, recorded=())
        assert unseen.iterations == [17]
        assert unseen.compute_seconds == pytest.approx([17.25])
