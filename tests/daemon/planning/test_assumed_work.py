"""Jobs of which no host knows the work, from `--weight` to the plan in force."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hostcc.config.sections.job import JobRequest
from hostcc.config.sections.plan import PlanConfig
from hostcc.coord.core.message import Record
from hostcc.coord.core.payloads import FlowEntry, Flows, Links, PathEntry, Paths
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store
from hostcc.coord.view import build
from hostcc.daemon.gossip.profile_records import content
from hostcc.daemon.planning.planner import Planner
from hostcc.daemon.profiling.live_jobs import LiveJob, of_table
from hostcc.daemon.profiling.profiles import JobFacts, known, to_share
from hostcc.daemon.profiling.tracks import Track
from hostcc.measure.destinations import DESTINATION
from hostcc.measure.series import part
from hostcc.model import ClusterView
from hostcc.schedule.assumed_work import EQUAL
from tests.coord.records import held, member, record
from tests.daemon.planning.made import HeldSnapshot, standing
from tests.daemon.planning.test_planning_task import World
from tests.measure.addresses import packed
from tests.measure.jobs import regular

pytestmark = pytest.mark.unit

PEER = "198.18.0.2"
BYTES = 5e6


def seen(name: str) -> Track:
    """Iterations of 100 ms, all of whose bytes go to PEER."""
    made, to = Track(name), np.zeros(1, DESTINATION)
    to["addr"][0] = packed(PEER)
    for at in range(0, 4000, 1000):
        made.take(part(regular(100, 40), at, at + 1000), to, np.array([[1, 1]]))
        made.analyse(made.collect())
    return made


def told(job: LiveJob, facts: JobFacts) -> list[Record]:
    """What this host publishes of a job."""
    profile = to_share(known(job, seen(job.name), facts), "here", 0.0)
    assert profile is not None
    assert profile.work == 0.0
    flows = Flows((FlowEntry(f"flow-{job.name}", "peer", BYTES),))
    return [
        record("here", "profile", job.name, content(profile, None, {PEER: "peer"})),
        record("here", "flows", job.name, flows),
    ]


def view(records: list[Record]) -> ClusterView:
    store = Store(Settings())
    path = Paths((PathEntry("p", ("link",)),))
    links = Links((("link", 1e8),))
    for one in [
        member("here"),
        member("peer"),
        record("here", "paths", "peer", path),
        record("here", "links", "", links),
        *records,
    ]:
        store.put(held(one), 0.0)
    return build(store, (), "").view


@pytest.mark.parametrize("first", ["a", "b"])
def test_owners_weights_decide_the_levels_of_the_plan_in_force(tmp_path: Path, first: str) -> None:
    world = World(tmp_path)
    for name in ("a", "b"):
        weight = 4.0 if name == first else 1.0
        world.table.register(name, JobRequest(weight=weight), os.getpid())
    jobs = of_table(world.table)
    facts = JobFacts(why="no NVIDIA driver (libnvidia-ml.so.1 is not there)")
    planner = Planner(PlanConfig())
    held = view([one for name in "ab" for one in told(jobs[name], facts)])
    found = planner.made(planner(held))
    assert found is not None
    world.standing = standing(found, snapshot=HeldSnapshot(held))
    world.tick()
    state = world.part.view().block
    assert state.follows == found.plan.digest
    in_force = {one.name: one for one in state.jobs}
    second = "b" if first == "a" else "a"
    assert in_force[first].rank < in_force[second].rank
    assert in_force[first].level < in_force[second].level
    assert in_force[first].weight > 4.0
    assert in_force[second].weight < 1.0
    assert {one.work_assumed for one in state.jobs} == {EQUAL}
