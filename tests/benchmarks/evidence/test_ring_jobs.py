"""The routing paper's jobs: the stored form, closed forms, and paths that change."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.evidence import ring_jobs
from benchmarks.evidence.ring_jobs import FabricSize, RingJob, Rings
from hostcc.schedule.paths.clos import Clos, Flows
from hostcc.schedule.paths.fabric import Ints

pytestmark = pytest.mark.unit
SMALL = FabricSize(tors=4, spines=2, first_nic=0, nics_of_tor=2, rate=8e9)
"""NICs send 1e9 bytes/s."""


def job(nics: tuple[int, ...], count: int = 1, start_s: float = 0.0) -> RingJob:
    return RingJob("m", 1e8, 0.5, start_s, (Rings(nics, count),))


def one_spine(clos: Clos, flows: Flows) -> Ints:
    return np.zeros(len(flows.src), np.int64)


def test_the_published_sets() -> None:
    sets = {one.name: one for one in ring_jobs.evaluation().sets}
    assert len(sets) == 9
    size = ring_jobs.evaluation().fabric
    (bloom,) = sets["jobs_1/ring_4"].jobs
    flows = ring_jobs.flows_of(bloom, size)
    assert len(flows.src) == 192
    assert flows.src[:4].tolist() == [14, 5, 62, 53]
    assert flows.dst[:4].tolist() == [5, 62, 53, 14]
    assert set(flows.rounds.tolist()) == {6}


def test_alone_it_takes_its_rounds() -> None:
    (times,) = ring_jobs.all_reduces([job((0, 2, 4))], SMALL, one_spine, 0, 3)
    assert times == pytest.approx([2 * 2 * 0.1] * 3, rel=1e-9)
    assert job((0, 2, 4)).alone(1e9) == pytest.approx(0.4)


def test_two_rings_on_one_spine_take_twice_as_long_and_apart_they_do_not() -> None:
    both = [job((0, 2), count=2)]
    (shared,) = ring_jobs.all_reduces(both, SMALL, one_spine, 0, 2)
    (apart,) = ring_jobs.all_reduces(both, SMALL, ring_jobs.hostcc, 0, 2)
    assert shared == pytest.approx([0.4, 0.4], rel=1e-9)
    assert apart == pytest.approx([0.2, 0.2], rel=1e-9)


def test_paths_are_chosen_anew_when_a_job_starts_and_when_one_ends() -> None:
    asked = []

    def watched(clos: Clos, flows: Flows) -> Ints:
        asked.append(len(flows.src))
        return one_spine(clos, flows)

    jobs = [job((0, 2)), job((4, 6, 5), start_s=0.1)]
    ring_jobs.all_reduces(jobs, SMALL, watched, 0, 1)
    assert asked == [2, 5, 3]


def test_a_failed_spine_carries_nothing() -> None:
    clos = ring_jobs.clos_of(SMALL, 1)
    assert (clos.up[:, 1] == 0).all()
    (times,) = ring_jobs.all_reduces([job((0, 2), count=2)], SMALL, ring_jobs.hostcc, 1, 1)
    assert times == pytest.approx([0.4], rel=1e-9)


@pytest.mark.parametrize("name", ring_jobs.METHODS)
def test_every_method_routes_all_flows(name: str) -> None:
    clos = ring_jobs.clos_of(SMALL, 0)
    flows = ring_jobs.all_flows([ring_jobs.flows_of(job((0, 2), count=2), SMALL)])
    spines = ring_jobs.METHODS[name](clos, flows)
    assert set(spines.tolist()) <= {0, 1}
    fixed = ring_jobs.kept(lambda *_: spines, clos, flows)
    part = Flows(flows.src[1:], flows.dst[1:], flows.demand[1:], flows.key[1:])  # type: ignore[index]
    assert fixed(clos, part).tolist() == spines[1:].tolist()
