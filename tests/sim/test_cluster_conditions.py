"""Replays whose plans come late, err, or meet failed links: outcomes that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hostcc.errors import InputError
from hostcc.sim import cluster_run, fabrics
from hostcc.sim.cluster_conditions import (
    Conditions,
    Failure,
    bytes_factor,
    measured,
    parse_failures,
)
from hostcc.sim.cluster_jobs import Setting
from hostcc.sim.released import Trace, TracedJob
from hostcc.sim.workload_table import read
from tests.sim.test_cluster_run import CROSSING, MINUTES, topology, traced

pytestmark = pytest.mark.unit

GBIT = fabrics.GBIT


def one_path(uplink_gbit: float = 200) -> fabrics.Topology:
    rates = {"nic": 200 * GBIT, "agg": uplink_gbit * GBIT}
    return fabrics.two_layer("small", 4, 2, 1, 4, rates)


def given(
    fabric: fabrics.Topology, trace: Trace = CROSSING, setting: Setting | None = None
) -> cluster_run.Cluster:
    return cluster_run.cluster(trace, fabric, read(), 0, MINUTES, setting)


def replayed(
    cluster: cluster_run.Cluster, scheduler: str, conditions: Conditions | None = None
) -> cluster_run.ClusterResult:
    how = cluster_run.How(8, conditions or Conditions())
    return cluster_run.run(cluster, scheduler, how)


def test_a_plan_that_never_comes_leaves_jobs_as_without_one() -> None:
    cluster = given(one_path())
    late = replayed(cluster, "crux-full", Conditions(lag_s=1e6))
    without = replayed(cluster, "ecmp")
    assert late.figures["utilisation"] == pytest.approx(without.figures["utilisation"])
    assert late.figures["utilisation"] < replayed(cluster, "crux-full").figures["utilisation"]


def test_a_plan_is_in_force_after_its_lag() -> None:
    cluster = given(one_path())
    found = [
        replayed(cluster, "crux-full", Conditions(lag_s=lag)).figures["utilisation"]
        for lag in (0.0, 200.0, 400.0)
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[2]


@pytest.mark.parametrize("scheduler", ["crux-full", "crux-ps-pa", "hostcc"])
def test_a_job_that_no_plan_knows_waits_below_the_last_level(scheduler: str) -> None:
    first, later = traced(1, "gpt", (0, 2), 0, 10), traced(2, "BERT", (1, 3), 5, 10)
    # The first is planned at 200 s, on the only level; the other has no plan before the end.
    how = cluster_run.How(1, Conditions(lag_s=200.0))

    def computed(*jobs: TracedJob) -> list[float]:
        trace = Trace(jobs, CROSSING.hosts, {}, {})
        cluster = cluster_run.cluster(trace, one_path(), read(), 0, 7)
        return [job["computed_s"] for job in cluster_run.run(cluster, scheduler, how).jobs]

    beside = computed(first, later)
    assert beside[0] == pytest.approx(computed(first)[0])
    assert beside[1] < 0.9 * computed(later)[0]


def test_jobs_that_are_profiled_are_in_no_plan() -> None:
    cluster = given(one_path())
    always = replayed(cluster, "crux-full", Conditions(profiling_s=1e6))
    assert always.figures["plans"] == 0
    assert always.figures["utilisation"] == pytest.approx(
        replayed(cluster, "ecmp").figures["utilisation"]
    )
    some = replayed(cluster, "hostcc", Conditions(profiling_s=30.0, lag_s=5.0))
    assert some.figures["plans"] >= 1


def test_measured_numbers_are_off_by_no_more_than_the_error_and_always_alike() -> None:
    job = given(one_path()).jobs[0]
    exact = measured(job, "j", 1.5, 0.0, 3)
    assert (exact.compute_s, exact.work, exact.period_s) == (job.size.compute_s, job.flop, 1.5)
    off = measured(job, "j", 1.5, 0.2, 3)
    assert off == measured(job, "j", 1.5, 0.2, 3)
    assert off.compute_s != exact.compute_s
    for name in ("compute_s", "work", "period_s"):
        assert getattr(off, name) == pytest.approx(getattr(exact, name), rel=0.2)
    assert bytes_factor("j", 0.0, 3) == 1
    assert abs(bytes_factor("j", 0.2, 3) - 1) <= 0.2


@pytest.mark.parametrize("scheduler", ["ecmp", "crux-full", "hostcc", "hostcc-stay"])
def test_a_job_without_a_path_waits_until_its_link_is_back(scheduler: str) -> None:
    alone = given(one_path(800), Trace(CROSSING.jobs[:1], CROSSING.hosts, {}, {}))
    down = Failure(60.0, 160.0, "agg", (0, 0))
    ends = [
        replayed(alone, scheduler, Conditions(failures=failures)).jobs[0]["finished_s"]
        for failures in ((), (down,))
    ]
    assert ends[1] - ends[0] == pytest.approx(100, abs=2 * alone.alone[0])


@pytest.mark.parametrize("scheduler", ["ecmp", "crux-full", "hostcc", "hostcc-stay"])
def test_flows_leave_a_failed_link_where_there_is_another(scheduler: str) -> None:
    alone = given(topology(800), Trace(CROSSING.jobs[:1], CROSSING.hosts, {}, {}))
    down = Failure(60.0, math.inf, "agg", (0, 1))
    found = replayed(alone, scheduler, Conditions(failures=(down,)))
    # Four flows of 200 Gbit/s fit on the link that is left.
    assert found.jobs[0]["finished_s"] == pytest.approx(
        alone.alone[0] * alone.iterations[0], rel=1e-2
    )


def test_cassini_interleaves_two_jobs_that_fit() -> None:
    jobs = tuple(
        job.__class__(f"job{at}", at, "BERT", 0, 0, 10, 16, ((at, 8), (at + 2, 8)))
        for at, job in enumerate(CROSSING.jobs)
    )
    cluster = given(one_path(800), Trace(jobs, CROSSING.hosts, {}, {}), Setting(scale=0.5))
    ecmp, cassini = (replayed(cluster, name).figures for name in ("ecmp", "cassini"))
    assert ecmp["utilisation_alone"] < 0.99
    assert cassini["utilisation_alone"] > ecmp["utilisation_alone"]
    assert cassini["utilisation_alone"] == pytest.approx(1, abs=0.01)


def test_risk_and_the_lowest_level_are_counted() -> None:
    cluster = given(one_path(200))
    found = replayed(cluster, "crux-full").figures
    assert found["at_risk"]["jobs_ever"] == 2
    assert 0 < found["at_risk"]["jobs"] <= 1
    assert 0 < found["throughput_loss_lowest_level"] < 1
    assert replayed(cluster, "ecmp").figures["throughput_loss_lowest_level"] is None


def test_the_course_adds_up_to_the_utilisation() -> None:
    cluster = given(one_path(200))
    for name in ("alone", "crux-full"):
        found = replayed(cluster, name)
        course = np.array(
            [np.nan if one is None else one for one in found.figures["course"]["utilisation"]]
        )
        assert len(course) == cluster_run.SAMPLES
        assert np.nanmin(course) <= found.figures["utilisation"] <= np.nanmax(course)
        assert np.isnan(course[-1])  # all have finished


def test_queue_pairs_share_a_connections_bytes_and_scale_multiplies_them() -> None:
    plain = given(topology(200)).jobs[0]
    split = given(topology(200), setting=Setting(queue_pairs=4, scale=3.0)).jobs[0]
    assert len(split.flows) == 4 * len(plain.flows)
    sent = [sum(flow.bytes for flow in job.flows) for job in (plain, split)]
    assert sent[1] == pytest.approx(3 * sent[0])
    assert split.size.nic_bytes == 3 * plain.size.nic_bytes


@pytest.mark.parametrize("text", ["1:agg", "x:agg:0-1", "5-4:agg:0-1", "1:nvlink:0-1", "1:agg:0"])
def test_wrong_failures_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="failures: expected"):
        parse_failures(text)


def test_failures_are_read_and_checked_against_the_fabric() -> None:
    one, other = parse_failures("60:agg:0-0,60-120:nic:3-0")
    assert (one.until, other.until, other.kind) == (math.inf, 120.0, "nic")
    assert len(one.links(one_path())) == 2
    with pytest.raises(InputError, match="failure: expected a connection of small, got agg:9-9"):
        Failure(0, 1, "agg", (9, 9)).links(one_path())


@pytest.mark.parametrize(
    "wrong", [{"lag_s": -1.0}, {"profiling_s": math.nan}, {"error": 1.0}, {"lag_s": math.inf}]
)
def test_wrong_conditions_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="expected 0 to"):
        Conditions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [{"placement": "first"}, {"queue_pairs": 0}, {"scale": math.nan}, {"seed": -1}]
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="expected"):
        Setting(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["none", "pod", "packed", "hived", "muri"])
def test_jobs_run_where_a_placement_puts_them(name: str) -> None:
    found = given(one_path(), setting=Setting(placement=name, seed=2))
    assert [len(job.traced.hosts) for job in found.jobs] == [2, 2]
    assert len({host for job in found.jobs for host, _ in job.traced.hosts}) == 4
    assert replayed(found, "ecmp").figures["jobs"] == 2
    if name in {"packed", "hived", "muri"}:  # below one ToR each
        assert replayed(found, "ecmp").figures["utilisation_alone"] == pytest.approx(1)
