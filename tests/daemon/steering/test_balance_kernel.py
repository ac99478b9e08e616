"""Agents with `[plan] paths` set to "maxmin" or "balance" move live flows to the paths it means."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from hostcc.lab.leafspine_flows import FlowTable
from hostcc.schedule.paths import clos, greedy
from tests.daemon.steering.agents_stage import AgentsStage, Stream
from tests.real import until

pytestmark = pytest.mark.kernel

MBIT_PER_S = 100
OVER = f"""
[paths]
enabled = true
elephant_bytes = 100000
fabric_mbit_per_s = {MBIT_PER_S}
"""
BLOCK = 1 << 16
JOBS = {
    "a": ("h1", "h3", 20 * BLOCK),
    "b": ("h2", "h4", 8 * BLOCK),
    "c": ("h1", "h4", 9 * BLOCK),
}
"""Sender, receiver, bytes of an iteration."""
PORTS = {name: 5301 + number for number, name in enumerate(JOBS)}
PERIOD_S = 0.25
PATIENCE_S = 180.0
"""Only bounds a failure."""

Groups = set[frozenset[str]]
"""Jobs whose flows share a spine."""


class Scene:
    """Agents, and what the spines see of the jobs' flows."""

    def __init__(self, stage: AgentsStage, seen: FlowTable) -> None:
        self.stage, self.seen = stage, seen

    def reason(self) -> str:
        """Of the plan in force."""
        plan = self.stage.client("h1", "plan", "--json").stdout
        return str(json.loads(plan or "{}").get("reason"))

    def groups(self, jobs: set[str]) -> Groups:
        """Jobs by the spine that their next bytes take; nothing while one changes its path."""
        self.seen.clear()
        ways: dict[str, set[int]] = {}

        def all_sent() -> bool:
            ways.clear()
            for one in self.seen.read():
                for job, port in PORTS.items():
                    if port == one.dst_port:
                        ways.setdefault(job, set()).add(one.spine)
            return ways.keys() == jobs

        until(all_sent, lambda: f"bytes of {jobs}, only {ways} came", PATIENCE_S)
        if any(len(spines) > 1 for spines in ways.values()):
            return set()
        spines = {min(one) for one in ways.values()}
        return {frozenset(job for job in ways if spine in ways[job]) for spine in spines}

    def end_on(self, expected: Groups, words: str, jobs: set[str]) -> None:
        """Wait until the flows are on such paths, and the plan of that says `words`."""

        def there() -> bool:
            return self.groups(jobs) == expected and words in self.reason()

        def what() -> str:
            found = f"{self.groups(jobs)}: {self.reason()}"
            view = self.stage.client("h1", "view").stdout
            return f"{expected}: {words}, not {found}\n{view}\n{self.stage.logs()}"

        until(there, what, PATIENCE_S)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with AgentsStage(OVER) as stage:
        seen = FlowTable(stage.fabric.spine_ports())
        try:
            yield Scene(stage, seen)
        finally:
            seen.close()


def by_greedy() -> Groups:
    """Where max-min path choice puts the jobs: bytes a second of each alone, the largest first."""
    capacity = MBIT_PER_S * 1e6 / 8
    size = np.array([size for _, _, size in JOBS.values()], np.float64)
    nowhere = np.zeros(len(JOBS), np.int64)
    flows = clos.Flows(nowhere, nowhere + 1, size / (PERIOD_S + size / capacity))
    fabric, table = clos.fabric(clos.uniform(2, 2, capacity), flows)
    spine = greedy.longest_first(fabric, table, flows.demand).tolist()
    names = list(JOBS)
    return {
        frozenset(name for name, one in zip(names, spine, strict=True) if one == which)
        for which in set(spine)
    }


def test_flows_that_collide_end_where_the_greedy_puts_them(scene: Scene) -> None:
    expected = by_greedy()
    assert expected == {frozenset("a"), frozenset("bc")}
    stage, seen = scene.stage, scene.seen
    stage.start(over='[plan]\npaths = "maxmin"\n')
    streams: dict[str, Stream] = {}
    for job, (src, dst, size) in JOBS.items():
        port = PORTS[job]
        taken = {stream.sport for stream in streams.values()}
        source = next(one for one in stage.sources(src, dst, port)[0] if one not in taken)
        streams[job] = stage.stream(
            job, src, dst, port, source=source, period_s=PERIOD_S, size=size
        )
    own = {(PORTS[job], stream.sport) for job, stream in streams.items()}
    assert len({one.spine for one in seen.read() if (one.dst_port, one.src_port) in own}) == 1
    still = "3 flows stay, 0 move, 0 are placed, 1 group on a two-layer Clos"
    scene.end_on(expected, f"paths: maxmin: {still};", set(JOBS))
    # By flows instead: what differs in demand is left to maxmin, what is nearly equal is not.
    stage.reload('[plan]\npaths = "balance"\n')
    differ = "1 group by maxmin because demands differ"
    scene.end_on(expected, f"paths: balance: {still}, {differ};", set(JOBS))
    sent = [streams.pop("a").finish()]
    equal = {frozenset("b"), frozenset("c")}
    scene.end_on(equal, f"paths: balance: {still.replace('3', '2')};", set("bc"))
    assert min([*sent, *(one.finish() for one in streams.values())]) > 0
