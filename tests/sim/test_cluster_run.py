"""Replays of small traces whose outcome is known, and what must not change it."""

from __future__ import annotations

import dataclasses
import random
import time
from pathlib import Path

import pytest

from hostcc.errors import InputError
from hostcc.mltcp.params import Shape
from hostcc.sim import cluster_run, fabrics
from hostcc.sim.cluster_document import keep, kept
from hostcc.sim.cluster_jobs import seconds_alone
from hostcc.sim.cluster_schedulers import RAMP_INTERCEPT, RAMP_SLOPE, SCHEDULERS
from hostcc.sim.released import Trace, TracedHost, TracedJob
from hostcc.sim.workload_table import read

pytestmark = pytest.mark.unit

GBIT = fabrics.GBIT
MINUTES = 30


def traced(number: int, model: str, hosts: tuple[int, ...], start: int, end: int) -> TracedJob:
    own = tuple((host, 8) for host in hosts)
    return TracedJob(f"job{number}", number, model, start, start, end, 8 * len(hosts), own)


def hosts(count: int) -> tuple[TracedHost, ...]:
    return tuple(TracedHost(f"h{at}", "P", f"P/T{at // 2}", True) for at in range(count))


def topology(uplink_gbit: float) -> fabrics.Topology:
    rates = {"nic": 200 * GBIT, "agg": uplink_gbit * GBIT}
    return fabrics.two_layer("small", 4, 2, 2, 4, rates)


CROSSING = Trace(
    (traced(1, "gpt", (0, 2), 0, 10), traced(2, "BERT", (1, 3), 0, 10)), hosts(4), {}, {}
)


def prepared(trace: Trace = CROSSING, uplink_gbit: float = 200) -> cluster_run.Cluster:
    return cluster_run.cluster(trace, topology(uplink_gbit), read(), 0, MINUTES)


def test_one_job_alone_runs_as_long_as_recorded_under_every_scheduler() -> None:
    given = prepared(Trace(CROSSING.jobs[:1], CROSSING.hosts, {}, {}), 800)
    for name in SCHEDULERS:
        found = cluster_run.run(given, name)
        finished = found.jobs[0]["finished_s"]
        assert finished == pytest.approx(given.alone[0] * given.iterations[0])
        assert finished == pytest.approx(600, abs=given.alone[0])
        assert found.figures["utilisation_alone"] == pytest.approx(1)


def test_gpt_on_64_gpus_iterates_in_the_published_time() -> None:
    job = traced(1, "gpt", tuple(range(8)), 0, 10)
    fabric = fabrics.two_layer("wide", 8, 1, 1, 4, {"nic": 200 * GBIT, "agg": 200 * GBIT})
    given = cluster_run.cluster(Trace((job,), hosts(8), {}, {}), fabric, read(), 0, MINUTES)
    assert given.alone[0] == pytest.approx(1.530)
    assert seconds_alone(fabric, given.jobs, given.routes)[0] == given.alone[0]


def test_contention_costs_ecmp_more_than_a_plan_with_levels() -> None:
    given = prepared(uplink_gbit=400)
    shares = {
        name: cluster_run.run(given, name).figures["utilisation_alone"]
        for name in ("alone", "ecmp", "crux-full", "hostcc")
    }
    assert shares["alone"] == pytest.approx(1)
    assert shares["ecmp"] < 0.99
    assert min(shares["crux-full"], shares["hostcc"]) > shares["ecmp"]


def test_a_job_that_runs_already_is_replayed_for_the_rest_of_its_time() -> None:
    given = cluster_run.cluster(CROSSING, topology(800), read(), 6, 10)
    assert [(job.start, job.seconds) for job in given.jobs] == [(0, 240), (0, 240)]


def test_hosts_that_the_fabric_lacks_and_no_job_are_refused() -> None:
    few = fabrics.two_layer("few", 2, 2, 1, 4, {"nic": 1e9, "agg": 1e9})
    with pytest.raises(InputError, match="few: expected 4 hosts"):
        cluster_run.cluster(CROSSING, few, read(), 0, MINUTES)
    with pytest.raises(InputError, match="expected a job"):
        cluster_run.cluster(CROSSING, topology(200), read(), 100, MINUTES)
    with pytest.raises(InputError, match="expected a job"):
        cluster_run.busiest(Trace((), hosts(1), {}, {}), MINUTES)


def test_the_busiest_days_are_those_in_which_jobs_hold_most_gpus() -> None:
    chance = random.Random(3)
    for minutes in (14, 1440, 2880):
        jobs = []
        for number in range(1, 20):
            start = chance.randrange(-10_000, 20_000)
            jobs.append(traced(number, "gpt", (0,), start, start + chance.randrange(1, 5000)))
        found = cluster_run.busiest(Trace(tuple(jobs), hosts(1), {}, {}), minutes)
        assert found % 1440 == 0
        gpu_minutes = [
            sum(max(0, min(job.end, day + minutes) - max(job.start, day)) for job in jobs)
            for day in (*range(-11_520, 27_360, 1440), found)
        ]
        assert gpu_minutes[-1] == max(gpu_minutes)
        assert found == -11_520 + 1440 * gpu_minutes.index(gpu_minutes[-1])


def test_one_job_with_a_wrong_year_costs_little_time() -> None:
    recent = 27_800_000
    jobs = [traced(number, "gpt", (0,), recent, recent + 60) for number in range(1, 500)]
    wrong = traced(500, "gpt", (0,), -1_036_000_000, -1_036_000_000 + 60)
    begun = time.process_time()
    found = cluster_run.busiest(Trace((*jobs, wrong), hosts(1), {}, {}), 1440)
    assert time.process_time() - begun < 3
    assert found == recent // 1440 * 1440


def test_a_fabric_that_is_cut_is_refused() -> None:
    whole = topology(200)
    cut = dataclasses.replace(whole, tor_aggs=((0,), (1,)))
    with pytest.raises(InputError, match="small: expected a path between hosts"):
        cluster_run.cluster(CROSSING, cut, read(), 0, MINUTES)


def test_ten_thousand_jobs_at_one_instant_make_one_plan() -> None:
    many = tuple(traced(at, "BERT", (at % 4,), 0, 5) for at in range(10_000))
    given = prepared(Trace((*CROSSING.jobs, *many), CROSSING.hosts, {}, {}))
    found = cluster_run.run(given, "hostcc")
    assert found.figures["jobs"] == 10_002
    assert 1 <= found.figures["plans"] <= 2


def test_two_runs_are_equal() -> None:
    jobs = [
        traced(at, random.Random(at).choice(["gpt", "BERT", "llama"]), (at % 2, 2 + at % 2), 0, 9)
        for at in range(4)
    ]
    given = prepared(Trace(tuple(jobs), CROSSING.hosts, {}, {}), 300)
    one, other = (cluster_run.run(given, "hostcc-stay") for _ in range(2))
    assert (one.figures, one.jobs) == (other.figures, other.jobs)


def test_a_finished_run_is_kept_and_only_for_the_same_inputs(tmp_path: Path) -> None:
    found = cluster_run.run(prepared(), "ecmp")
    keep(tmp_path, {"a": 1}, found)
    assert kept(tmp_path, {"a": 1}, "ecmp") == found
    assert kept(tmp_path, {"a": 1}, "hostcc") is None
    with pytest.raises(InputError, match=r"ecmp\.json: expected a run of the same"):
        kept(tmp_path, {"a": 2}, "ecmp")
    for damaged in (b"{", b'{"scheduler": "\xff"}', b"[" * 100_000):
        (tmp_path / "ecmp.json").write_bytes(damaged)
        with pytest.raises(InputError, match=r"ecmp\.json: expected a finished run"):
            kept(tmp_path, {"a": 1}, "ecmp")


def test_the_ramp_is_that_of_mltcp() -> None:
    assert (Shape().slope, Shape().intercept) == (RAMP_SLOPE, RAMP_INTERCEPT)
    assert len(SCHEDULERS["mltcp"].ramp) == 16
