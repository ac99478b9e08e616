"""Answers to requests that change nothing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hostcc.answers.flows import Flows as FlowsAnswer
from hostcc.answers.gossip import Gossip
from hostcc.answers.jobs import JobRow
from hostcc.answers.plan_status import PlanStatus
from hostcc.answers.status import AgentStatus, JobStatus, Loop, Routing, Status
from hostcc.daemon.api import observation
from hostcc.daemon.api.messages import Flows
from hostcc.daemon.enforcement import default_ca
from hostcc.daemon.jobs import views
from hostcc.daemon.jobs.iteration_times import Iteration, IterationTimes
from hostcc.daemon.supervisor import Block, Host, Supervisor

B = TypeVar("B", bound=Block)


@dataclass(frozen=True)
class Facts:
    """Who answers."""

    version: str
    started_s: float
    """CLOCK_MONOTONIC, seconds."""
    config: Path | None
    observing: str
    """Why nothing is changed on this host; empty while the agent acts."""
    loop: Loop
    """How long turns of the agent's own loop take, and what fails in it."""
    held: str | None = None
    """Who has turned it off across restarts, and since when."""
    differences: int = 0
    """Changes that were no longer in force at the last check."""


def status(
    host: Host,
    facts: Facts,
    times: IterationTimes,
    parts: Supervisor,
    measured: Callable[[str], Iteration | None],
    judged: Callable[[JobStatus], JobStatus],
) -> Status:
    """The agent, its parts and its jobs, in numbers.

    `measured`: what the meter knows of a job; `judged`: adds what an iteration takes alone.
    """
    engine, config = host.engine, host.config
    shown = parts.status()
    blocks = [block for _, block in shown]
    cpu_s, resident_bytes = views.own_usage()
    return Status(
        agent=AgentStatus(
            version=facts.version,
            pid=os.getpid(),
            instance=config.agent.instance,
            state="observing" if facts.observing else "active",
            reason=facts.observing or None,
            mode=str(engine.table.mode if engine else config.mltcp.mode),
            held=facts.held,
            uptime_s=time.monotonic() - facts.started_s,
            config=str(facts.config) if facts.config else None,
            run_dir=config.agent.run_dir,
            cgroup_root=str(engine.table.tree.root) if engine else None,
            default_congestion_control=default_ca(),
            congestion_controls=dict(engine.backend.ca_names) if engine else {},
            slots=views.slots(engine.table.slots) if engine else None,
            cpu_s=cpu_s,
            resident_bytes=resident_bytes,
            differences=facts.differences,
            loop=facts.loop,
        ),
        gossip=_first(Gossip, blocks),
        plan=_first(PlanStatus, blocks),
        routing=_first(Routing, blocks),
        parts=tuple(row for row, _ in shown),
        jobs=tuple(map(judged, times.annotate(engine.job_status() if engine else [], measured))),
        notes=views.notes(host.journal),
    )


def _first(kind: type[B], blocks: Iterable[Block | None]) -> B | None:
    return next((block for block in blocks if isinstance(block, kind)), None)


def jobs(host: Host) -> list[JobRow]:
    """Parameters of every job, and how its sockets are found."""
    engine = host.engine
    return views.configured_jobs(host.config) if engine is None else views.job_details(engine.table)


async def flows(host: Host, request: Flows) -> FlowsAnswer:
    """The jobs' connections."""
    if host.engine is None:
        return await asyncio.to_thread(observation.flows, host.config, request.job, request.limit)
    return await host.engine.flows(request.job, request.limit)
