"""Rate shares: how much of the planned paths each job's connections may use.

A link is divided among the flows that the plan puts on it, by their bytes per iteration times their
job's weight; a flow's share is the least over its links.  So no link is promised twice, and nobody
starves.  A flow that meets no other is not held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostcc.daemon.jobs.sockets import walked
from hostcc.daemon.jobs.table import JobTable
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.supervisor import Host
from hostcc.mltcp.params import Mode
from hostcc.paths.mark_kernel import JobMark
from hostcc.paths.shares import Hold, held
from hostcc.schedule.problem import Floats, Ints, Problem

RTT_INTERVAL_S = 10.0
"""Seconds between two readings of round-trip times."""
UNMEASURED = 2**32 - 1
"""Least RTT of a connection without a sample."""


@dataclass(frozen=True)
class Share:
    """The rate that a job's flows from this host may use together."""

    bytes_per_s: float
    flows: int


def flow_shares(problem: Problem, routing: Ints) -> tuple[Floats, NDArray[np.bool_]]:
    """(F,) bytes per second of each flow on its path of `routing` (F,), and whether it shares a
    link with another.  Flows without links have no bound."""
    counts = problem.path_start[routing + 1] - problem.path_start[routing]
    flow = np.repeat(np.arange(problem.flow_count), counts)
    first = np.repeat(problem.path_start[routing], counts)
    within = np.arange(len(flow)) - np.repeat(np.cumsum(counts) - counts, counts)
    link = problem.path_links[first + within]
    size = problem.flow_bytes * problem.weight[problem.flow_job]
    total = np.bincount(link, size[flow], problem.link_count)
    users = np.bincount(link, minlength=problem.link_count)
    share = np.full(problem.flow_count, np.inf)
    np.minimum.at(share, flow, problem.capacity[link] * size[flow] / total[link])
    meets = np.zeros(problem.flow_count, np.bool_)
    np.logical_or.at(meets, flow, users[link] > 1)
    return share, meets


def job_shares(made: PlanResult, host: str) -> dict[str, Share]:
    """Job -> what its flows that leave `host` may use, of jobs that meet others."""
    problem, routing = made.solution.problem, made.solution.decision.routing
    share, meets = flow_shares(problem, routing)
    found: dict[str, Share] = {}
    planned = {one.job for one in made.plan.jobs}
    together = set()
    for flow, name in enumerate(problem.flow_ids):
        if name.startswith(f"{host}/"):
            job = problem.job_ids[problem.flow_job[flow]]
            before = found.get(job, Share(0.0, 0))
            found[job] = Share(before.bytes_per_s + float(share[flow]), before.flows + 1)
            if meets[flow]:
                together.add(job)
    return {job: one for job, one in found.items() if job in together & planned}


def shown(mark: JobMark) -> dict[str, float]:
    """A job's rate or window bound, for status; empty: none."""
    parts = {"bytes_per_s": mark.pace_bps, "window_packets": mark.clamp_packets}
    return {name: value for name, value in parts.items() if value is not None}


class RateShares:
    """Adds to jobs' marks what the plan in force gives them."""

    def __init__(self, host: Host, plans: PlanStore) -> None:
        self._host, self._plans = host, plans
        self._of: tuple[PlanResult | None, str] = (None, Hold.OFF)
        self._due = 0.0
        self._shares: dict[str, Share] = {}
        self._paths: dict[str, tuple[float, int]] = {}
        """Job -> least RTT in seconds, and bytes of a segment."""

    async def over(self, marks: Mapping[str, JobMark], now: float) -> dict[str, JobMark]:
        """Add shares to marks; `now`: monotonic seconds."""
        how, made = Hold(self._host.config.paths.shares), self._plans.current("paths")
        table = self._host.engine.table if self._host.engine is not None else None
        if how is Hold.OFF or made is None or table is None:
            self._of = (None, Hold.OFF)
            return dict(marks)
        if (made, how) != self._of or now >= self._due:
            self._of, self._due = (made, how), now + RTT_INTERVAL_S
            self._shares = job_shares(made, self._plans.member)
            if how is Hold.WINDOW:
                await self._look(table)
        found = dict(marks)
        for job, share in self._shares.items():
            if _may(table, job, how):
                mark, path = found.get(job, JobMark()), self._paths.get(job, (0.0, 0))
                made_of = held(mark, how, share.bytes_per_s, share.flows, *path)
                if shown(made_of):
                    found[job] = made_of
        return found

    async def _look(self, table: JobTable) -> None:
        """Read RTTs and segment sizes of the jobs' connections.  The least RTT so far stays, so
        that a bound does not follow the queue that it is to keep short."""
        rows: Any = await walked(table.sockets.flows(table.jobs.values()))
        names = {job.slot: job.name for job in table.jobs.values()}
        seen: dict[str, tuple[float, int]] = {}
        for slot in {int(slot) for slot in rows["slot"]} & names.keys():
            mine = rows[(rows["slot"] == slot) & (rows["min_rtt_us"] != UNMEASURED)]
            mine = mine[mine["mss_bytes"] > 0]
            if len(mine):
                job, rtt = names[slot], float(mine["min_rtt_us"].min()) / 1e6
                before = self._paths.get(job, (rtt, 0))[0]
                seen[job] = min(rtt, before), int(mine["mss_bytes"].max())
        self._paths = seen


def _may(table: JobTable, job: str, how: Hold) -> bool:
    """hostcc's congestion control paces by itself, and takes a paced socket for another's."""
    known = table.jobs.get(job)
    if known is None:
        return False
    return how is Hold.WINDOW or known.params is None or known.params.mode is Mode.OFF
