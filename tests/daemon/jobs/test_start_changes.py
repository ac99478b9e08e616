"""What an agent that starts is said to change of jobs, and what it changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.job import JobConfig, JobRequest
from hostcc.daemon import enforcement, preflight
from hostcc.daemon.changes import kinds
from hostcc.model import Change
from tests.hosts import Host

pytestmark = pytest.mark.unit


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(preflight, "missing", lambda root: [])
    return Host(tmp_path)


def config(host: Host) -> Config:
    return msgspec.structs.replace(host.config(), job=(JobConfig(name="svc", local_ports=(9,)),))


def in_force(host: Host, *, register: bool = False) -> dict[str, Change]:
    """What an agent has in force that is then killed; it may have a job with a process first."""
    found: dict[str, Change] = {}

    async def scene() -> None:
        agent = host.agent(config(host))
        await agent.start()
        assert agent.engine is not None
        if register:
            host.tree.homes[4711] = "/home/of/4711"
            agent.engine.table.register("a", JobRequest(weight=3.0), 4711)
            host.join("a")
        found.update(agent.journal.active)
        agent._lock.release()
        assert agent._server is not None
        await agent._server.close()
        agent.journal.close()

    asyncio.run(scene())
    return found


def told(change: Change) -> Change:
    """Without time and place; of sockets also without why, and the name that the kernel knows."""
    known = replace(change, at=0.0, place=None)
    if change.what == kinds.SOCKETS:
        assert isinstance(change.after, dict)
        return replace(known, why="", after={**change.after, "congestion_control": ""})
    return known


def test_a_start_changes_what_was_planned(host: Host) -> None:
    first = enforcement.planned(config(host), host.tree, {})
    made = in_force(host, register=True)
    assert {one.id for one in first} == made.keys() - {"job-cgroup:a", "job-member:a:4711"} - {
        "job-sockets:a"
    }
    assert all(told(one) == told(made[one.id]) for one in first)
    again = enforcement.planned(config(host), host.tree, made)
    made = in_force(host)
    assert "job-sockets:a" in {one.id for one in again}
    assert all(told(one) == told(made[one.id]) for one in again)


def test_a_running_job_keeps_the_weight_that_its_owner_asked_for(host: Host) -> None:
    left = in_force(host, register=True)
    planned = {one.id: one for one in enforcement.planned(config(host), host.tree, left)}
    after = planned["job-sockets:a"].after
    assert isinstance(after, dict)
    assert after["weight"] == 3.0
