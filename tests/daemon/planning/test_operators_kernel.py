"""What operators look at, of two agents that gossip: links, the view, utilisation, metrics."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.gossip.test_gossip_kernel import states
from tests.daemon.planning.scene import Scene
from tests.daemon.planning.test_planning_kernel import agree, says
from tests.real import HOSTCC, until

pytestmark = pytest.mark.kernel


@pytest.fixture
def scene(tmp_path: Path, cgroup2: Path) -> Iterator[Scene]:
    made = Scene(tmp_path, cgroup2)
    yield made
    made.close()


def test_links_view_and_utilisation(scene: Scene, tmp_path: Path) -> None:
    one, two = scene.hosts
    agents = [host.start(scene.section()) for host in scene.hosts]
    scene.tell(a=4e12, b=1e12)

    def settled() -> bool:
        """Whether both agents know each other and the teller: what they say is of one view."""
        if any(list(states(host).values()) != ["alive"] * 2 for host in scene.hosts):
            return False
        return len(one.json("plan")["jobs"]) == 2 and agree(one, two)

    until(settled, one.log)

    answer = one.json("links")
    (row,) = answer["links"]
    assert (row["link"], row["capacity"], row["full"], row["jobs"]) == ("uplink", 1e9, True, 2)
    assert row["load"] == pytest.approx(4 / 3)  # each computes 0.5 s and sends 1 s
    assert [job["job"] for job in row["sharing"]] == ["a", "b"]
    assert answer["digest"] == one.json("plan")["digest"]
    assert "uplink" in one.client("links", "--job", "b").stdout
    assert one.client("links", "--job", "nobody").returncode == 1

    file = tmp_path / "view.json"
    assert one.client("view", "--out", str(file)).returncode == 0
    again = subprocess.run(
        [*HOSTCC, "plan", str(file), "--json"], capture_output=True, text=True, check=True
    )
    theirs, mine = one.json("plan"), json.loads(again.stdout)
    assert {key: mine[key] for key in ("digest", "jobs", "flows")} == {
        key: theirs[key] for key in ("digest", "jobs", "flows")
    }

    new = {"job": "c", "compute_s": 0.5, "comm_start_s": 0.5, "work": 1e12, "gpus": 8}
    flow = {"job": "c", "src": "teller", "dst": "elsewhere", "bytes": 1e9}
    places = [{"name": "beside", "flows": [flow]}, {"name": "alone", "flows": []}]
    candidates = tmp_path / "candidates.json"
    candidates.write_text(json.dumps({"jobs": [new], "candidates": places}))
    ranked = json.loads(one.client("rank", "--live", str(candidates), "--json").stdout)
    assert ranked["digest"] == theirs["digest"]
    first, second = ranked["placements"]
    assert (first["name"], first["utilisation"]) == ("alone", ranked["before"])
    assert second["utilisation"] < first["utilisation"]

    cluster: dict[str, Any] = {}

    def figures() -> bool:
        cluster.update(two.json("status")["plan"]["cluster"] or {})
        jobs = [cluster.get(name) for name in ("predicted_jobs", "measured_jobs", "at_risk")]
        return jobs == [2, 2, 2]

    until(figures, two.log)
    assert 0.5 < cluster["predicted"] < 1.0
    # Both iterations take 1.5 s alone, and the teller says that they do.
    assert cluster["measured"] == 1.0
    assert (cluster["relieved"], cluster["links"]) == (1, [])
    until(lambda: says(two, "2 jobs are at risk of contention, 1 of them relieved"), two.log)
    for host, agent in zip(scene.hosts, agents, strict=True):
        assert host.stop(agent) == 0
