"""Shares of planned links: none is promised twice, nobody starves, who is alone is not held."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.config.schema import Config
from hostcc.config.sections.job import JobRequest
from hostcc.config.sections.mltcp import MltcpConfig
from hostcc.config.sections.paths import PathsConfig
from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.marking.rate_shares import (
    RTT_INTERVAL_S,
    RateShares,
    Share,
    flow_shares,
    job_shares,
    shown,
)
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.planning.planner import Planner
from hostcc.mltcp.params import Mode
from hostcc.model import ClusterView, Flow, PathTable
from hostcc.model import Path as Way
from hostcc.paths.mark_kernel import JobMark
from hostcc.paths.shares import MIN_WINDOW_PACKETS, Hold
from hostcc.schedule.problem import build
from tests.daemon.planning.made import ToyPlans
from tests.daemon.profiling.hosts import OWN, ToyHost
from tests.schedule.views import job

pytestmark = pytest.mark.unit

FAST, SLOW = 3e6, 1e6
"""Bytes per second of the links "fast" and "slow"."""


def view(sizes: dict[str, tuple[float, tuple[str, ...]]]) -> ClusterView:
    """Job -> bytes and links of its flow, named HOST/JOB, from "a" to an end of its own."""
    tables = [PathTable("a", name, (Way(f"p{name}", links),)) for name, (_, links) in sizes.items()]
    return ClusterView(
        jobs=tuple(job(name) for name in sorted(sizes)),
        flows=tuple(Flow(f"a/{name}", name, "a", name, size) for name, (size, _) in sizes.items()),
        tables=tuple(tables),
        links=(("fast", FAST), ("slow", SLOW)),
        digest="d",
    )


def made(sizes: dict[str, tuple[float, tuple[str, ...]]]) -> PlanResult:
    planner = Planner(PlanConfig())
    found = planner.made(planner(view(sizes)))
    assert found is not None
    return found


def test_by_bytes_and_the_least_of_the_links() -> None:
    plan = made({"x": (2e6, ("fast",)), "y": (1e6, ("fast", "slow")), "z": (1e6, ("slow",))})
    assert job_shares(plan, "a") == {"x": Share(2e6, 1), "y": Share(5e5, 1), "z": Share(5e5, 1)}
    assert job_shares(plan, "b") == {}


def test_the_same_plan_made_again_is_another_one() -> None:
    """Plans hold arrays, empty ones too, which cannot be compared with each other."""
    sizes = {"x": (2e6, ("fast",)), "y": (1e6, ("fast", "slow"))}
    plan, again = made(sizes), made(sizes)
    assert plan.plan == again.plan
    assert (plan, Hold.WINDOW) != (again, Hold.WINDOW)


def test_who_meets_nobody_is_not_held() -> None:
    assert job_shares(made({"x": (2e6, ("fast",)), "z": (1e6, ("slow",))}), "a") == {}


LINKS = st.lists(st.sampled_from(["fast", "slow"]), min_size=1, max_size=2, unique=True)


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.tuples(st.floats(1, 1e9), LINKS.map(tuple)), min_size=1
    )
)
def test_no_link_is_promised_twice(sizes: dict[str, tuple[float, tuple[str, ...]]]) -> None:
    problem = build(view(sizes))
    routing = problem.table_start[problem.flow_table]
    share, meets = flow_shares(problem, routing)
    assert (share > 0).all()
    for link, capacity in (("fast", FAST), ("slow", SLOW)):
        users = [f.removeprefix("a/") for f in problem.flow_ids]
        mine = np.array([link in sizes[name][1] for name in users])
        assert share[mine].sum() <= capacity * (1 + 1e-9)
        assert meets[mine].all() or mine.sum() < 2


class World:
    """A host with two jobs that share a link, in mode `mode`."""

    def __init__(self, folder: Path, how: str, mode: str = "off") -> None:
        config = Config(
            agent=OWN, paths=PathsConfig(shares=how), mltcp=MltcpConfig(mode=Mode(mode))  # type: ignore[arg-type]
        )  # fmt: skip
        self.host = ToyHost(folder, config)
        table = self.host.act()
        for name in ("x", "y"):
            table.register(name, JobRequest(), os.getpid())
        self.plans = ToyPlans(made({"x": (1e6, ("fast",)), "y": (2e6, ("fast",))}), "a")
        self.shares = RateShares(self.host, self.plans)

    def over(self, marks: dict[str, JobMark], now: float) -> dict[str, JobMark]:
        return asyncio.run(self.shares.over(marks, now))

    def rtt(self, micros: int, mss: int = 1000) -> None:
        slots = [one.slot for one in self.host.engine.table.jobs.values()]

        def flows(_: Any) -> Any:
            kind = [("slot", "u4"), ("min_rtt_us", "u4"), ("mss_bytes", "u4")]
            return np.array([(slot, micros, mss) for slot in slots], kind)

        self.host.engine.backend.flows = flows


def test_by_pacing_where_nothing_else_paces(tmp_path: Path) -> None:
    world = World(tmp_path, Hold.PACE)
    mark = JobMark(40 << 2, True)
    assert world.over({"x": mark}, 0.0) == {
        "x": replace(mark, pace_bps=1e6), "y": JobMark(pace_bps=2e6),
    }  # fmt: skip
    world.plans.result = None  # no plan holds
    assert world.over({"x": mark}, 0.0) == {"x": mark}


def test_hostccs_own_congestion_control_is_not_paced(tmp_path: Path) -> None:
    assert World(tmp_path, Hold.PACE, "mltcp").over({}, 0.0) == {}


def test_by_a_window_of_the_least_round_trip(tmp_path: Path) -> None:
    world = World(tmp_path, Hold.WINDOW, "mltcp")
    assert world.over({}, 0.0) == {}  # nothing is known of round trips
    world.rtt(20_000)
    assert world.over({}, RTT_INTERVAL_S) == {
        "x": JobMark(clamp_packets=20), "y": JobMark(clamp_packets=40),
    }  # fmt: skip
    world.rtt(80_000)  # a queue has built up: the bound stays
    assert world.over({}, 2 * RTT_INTERVAL_S)["x"] == JobMark(clamp_packets=20)
    world.rtt(10)
    assert world.over({}, 3 * RTT_INTERVAL_S)["x"] == JobMark(clamp_packets=MIN_WINDOW_PACKETS)
    assert shown(JobMark(clamp_packets=4)) == {"window_packets": 4}


def test_off(tmp_path: Path) -> None:
    mark = JobMark(40 << 2)
    assert World(tmp_path, Hold.OFF).over({"x": mark}, 0.0) == {"x": mark}
