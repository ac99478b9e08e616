"""Turns across hosts: real agents that gossip, with jobs whose paths share links."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from hostcc.client import ask
from hostcc.lab.leafspine_plan import LeafSpineSpec
from tests.daemon.steering.agents_stage import AgentsStage
from tests.patience import Patience

pytestmark = pytest.mark.kernel

LONGEST_S = 2
OVER = f"""
[measure]
profiling_max_s = {LONGEST_S}
[paths]
enabled = true
elephant_bytes = 100000
fabric_mbit_per_s = 100
"""
HOW: dict[str, Any] = {"period_s": 4.0, "size": 1 << 20}
"""So seldom that neither is known before its turn has come."""
SENDERS = {"h1": "a", "h2": "b"}
PATIENCE_S = 240.0
"""Only bounds a failure."""


@pytest.fixture
def stage() -> Iterator[AgentsStage]:
    spec = LeafSpineSpec(leaves=2, spines=1, hosts_per_leaf=2)
    with AgentsStage(OVER, spec=spec) as made:
        yield made


def profiled(stage: AgentsStage, host: str) -> bool:
    rows = ask(stage.folder / host / "control.sock", "jobs", detail=True)["jobs"]
    return any(row["profiling"] for row in rows if row["name"] == SENDERS[host])


def test_jobs_that_share_links_are_profiled_one_after_the_other(stage: AgentsStage) -> None:
    stage.start("h1", "h2", "h3")
    for port, (host, job) in enumerate(SENDERS.items(), start=5301):
        stage.stream(job, host, "h3", port, **HOW)
    began: list[str] = []
    ended: list[str] = []
    both = 0
    patience = Patience(PATIENCE_S)
    while len(ended) < len(SENDERS):
        assert patience.lasts(), f"began {began}, ended {ended}\n{stage.logs()}"
        first, second, again = (profiled(stage, host) for host in ("h1", "h2", "h1"))
        both += first and second and again
        for host, now in (("h1", again), ("h2", second)):
            if now and host not in began:
                began.append(host)
            if not now and host in began and host not in ended:
                ended.append(host)
        time.sleep(0.05)
    assert both == 0
    assert sorted(began) == ["h1", "h2"]
    assert ended == began
    for name in list(stage.agents):
        assert stage.end(name) == 0
