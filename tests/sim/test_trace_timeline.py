"""What runs and is at risk over time: by hand, and against a count made anew at each minute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.sim import fabrics
from hostcc.sim.fabrics import GBIT, Topology
from hostcc.sim.released import Trace, TracedHost, TracedJob, read_trace
from hostcc.sim.trace_timeline import Timeline, ring_load, timeline
from tests.sim.hand_made_trace import write_hand_made

pytestmark = pytest.mark.unit

PLACES = [("P1", "P1/S1"), ("P1", "P1/S1"), ("P1", "P1/S2"), ("P2", "P2/S1")]
HOSTS = tuple(TracedHost(str(place), *where, True) for place, where in enumerate(PLACES))


def fabric(trace: Trace, uplink: float = 200.0) -> Topology:
    pods, tors = [host.pod for host in trace.hosts], [host.tor for host in trace.hosts]
    return fabrics.released(pods, tors, uplink * GBIT)


def traced(number: int, start: int, end: int, hosts: Sequence[tuple[int, int]]) -> TracedJob:
    gpus = sum(amount for _, amount in hosts)
    return TracedJob(f"job{number}", number, "", start, start, end, gpus, tuple(hosts))


def test_by_hand(tmp_path: Path) -> None:
    trace = read_trace(write_hand_made(tmp_path))
    found = timeline(trace, fabric(trace))
    assert (found.minutes - found.minutes[0]).tolist() == [0, 5, 10, 20, 30]
    assert found.values["jobs"].tolist() == [2, 3, 2, 1]
    assert found.values["large_jobs"].tolist() == [1, 2, 1, 0]
    assert found.values["gpus"].tolist() == [20, 36, 20, 4]
    assert found.values["jobs_at_risk"].tolist() == [0, 2, 0, 0]
    assert found.values["gpus_at_risk_agg"].tolist() == [0, 32, 0, 0]
    assert not found.values["jobs_at_risk_nic"].any()
    assert not found.values["jobs_at_risk_core"].any()
    assert found.mean("gpus") == pytest.approx((16 * 10 + 16 * 15 + 4 * 30) / 30)
    assert found.mean_share("jobs_at_risk", "large_jobs") == pytest.approx(5 / 30)
    assert (found.most("gpus"), found.most("gpus_at_risk")) == (36, 32)


def test_links_that_they_cannot_fill_are_no_risk(tmp_path: Path) -> None:
    """Two jobs with four NICs of 200 Gbit/s each."""
    trace = read_trace(write_hand_made(tmp_path))
    assert timeline(trace, fabric(trace, 1599)).most("jobs_at_risk") == 2
    assert timeline(trace, fabric(trace, 1600)).most("jobs_at_risk") == 0


def test_jobs_share_a_nic_only_where_a_host_has_too_few_gpus() -> None:
    half = [traced(number, 0, 9, [(0, 4), (1, 4)]) for number in (1, 2)]
    apart = Trace(tuple(half), HOSTS, {}, {})
    assert timeline(apart, fabric(apart)).most("jobs_at_risk_nic") == 0
    more = Trace((*half, traced(3, 1, 9, [(0, 4), (1, 4)])), HOSTS, {}, {})
    found = timeline(more, fabric(more))
    assert found.values["jobs_at_risk_nic"].tolist() == [0, 2]
    assert found.values["jobs_at_risk_agg"].tolist() == [0, 0]


def test_a_ring_over_three_tors() -> None:
    trace = Trace((), HOSTS, {}, {})
    topology = fabric(trace, 100)
    load = ring_load(topology, {0: [0, 1], 1: [0, 1], 2: [0, 1, 2], 3: [2, 3]})
    by_class = [topology.link_class[link] for link in load]
    names = [fabrics.CLASSES[each] for each in by_class]
    # Four hosts with two NICs, three ToRs and two pods, each way.
    assert {name: names.count(name) for name in set(names)} == {"nic": 16, "agg": 6, "core": 4}
    assert {rate for link, rate in load.items() if names[list(load).index(link)] == "agg"} == {
        2 * 100 * GBIT
    }
    assert ring_load(topology, {0: [0, 1]}) == {}


def test_no_jobs() -> None:
    found = timeline(Trace((), HOSTS, {}, {}), fabric(Trace((), HOSTS, {}, {})))
    assert (found.mean("jobs"), found.most("jobs"), found.mean_share("gpus", "jobs")) == (0, 0, 0)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    amount = st.sampled_from([2, 4, 8, 8])
    jobs = []
    for number in range(draw(st.integers(0, 8))):
        start = draw(st.integers(0, 9))
        on = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True))
        each = draw(amount)
        hosts = [(host, each) for host in sorted(on)]
        jobs.append(traced(number, start, start + draw(st.integers(0, 6)), hosts))
    jobs.sort(key=lambda job: (job.start, job.number))
    return Trace(tuple(jobs), HOSTS, {}, {})


@given(trace=traces())
def test_counts_made_anew_at_each_minute(trace: Trace) -> None:
    found = timeline(trace, fabric(trace))
    for minute in range(16):
        running = [job for job in trace.jobs if job.start <= minute < job.end]
        assert at(found, "jobs", minute) == len(running)
        assert at(found, "gpus", minute) == sum(job.gpus for job in running)
        large = [job for job in running if job.gpus >= 8]
        assert at(found, "large_jobs", minute) == len(large)
        crossing = [job for job in running if len(tors_of(job)) > 1]
        # On 200 Gbit/s each job fills the links above its ToRs alone.
        risky = [
            job
            for job in crossing
            if job.gpus >= 8
            and any(tors_of(job) & tors_of(other) for other in crossing if other is not job)
        ]
        assert at(found, "jobs_at_risk_agg", minute) == len(risky)
        assert at(found, "gpus_at_risk_agg", minute) == sum(job.gpus for job in risky)
        for name in ("jobs", "gpus"):
            whole = at(found, f"{name}_at_risk", minute)
            parts = [at(found, f"{name}_at_risk_{kind}", minute) for kind in fabrics.CLASSES[1:]]
            assert max(parts) <= whole <= sum(parts)


def tors_of(job: TracedJob) -> set[str]:
    return {HOSTS[host].tor for host, _ in job.hosts}


def at(found: Timeline, name: str, minute: int) -> int:
    place = int(np.searchsorted(found.minutes, minute, "right")) - 1
    return int(found.values[name][place]) if 0 <= place < len(found.values[name]) else 0
