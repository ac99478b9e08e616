"""What happens to an agent whose own steps fail: it goes on, says so, and ends well."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from hostcc.client import ask
from hostcc.daemon import preflight
from hostcc.daemon.agent import Agent
from hostcc.daemon.isolated_steps import awaited
from hostcc.errors import HostccError
from tests.hosts import Host
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.slow]

Body = Callable[[Agent], Coroutine[Any, Any, None]]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(preflight, "missing", lambda root: [])
    monkeypatch.setattr(logging.getLogger("hostcc"), "propagate", True)
    return Host(tmp_path)


def defect(*_: object) -> Any:
    raise KeyError("a defect")


def live(agent: Agent, body: Body | None = None) -> None:
    """From start to end, as the service manager sees it; `body`: until it is told to stop."""

    async def scene() -> None:
        running = asyncio.create_task(agent.run())
        if body is not None:
            await eventually(lambda: agent.engine is not None or running.done())
            acting = asyncio.create_task(body(agent))
            await asyncio.wait((running, acting), return_when=asyncio.FIRST_COMPLETED)
            if not acting.done():
                acting.cancel()
            agent._stop.set()
            await running
            await acting
        else:
            await running

    asyncio.run(asyncio.wait_for(scene(), 60))


async def status(agent: Agent) -> Any:
    return await asyncio.to_thread(ask, agent.config.socket_path, "status")


def messages(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.getMessage() == event]


@pytest.mark.parametrize("step", ["sweep", "events"])
def test_a_defect_in_one_step_keeps_no_other_from_its_turn(
    host: Host, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    async def body(agent: Agent) -> None:
        assert agent.engine is not None
        backend, good = host.backends[0], agent.engine.table.sweep
        quiet = backend.events
        swept: list[None] = []
        if step == "sweep":
            agent.engine.table.sweep = defect  # type: ignore[method-assign]
        else:
            agent.engine.table.sweep = lambda: swept.append(None)  # type: ignore[method-assign]
            backend.events = defect  # type: ignore[method-assign]
        await eventually(lambda: agent.steps.failures > 2)
        beats = backend.beats
        await eventually(lambda: backend.beats > beats + 2)
        assert swept or step == "sweep"
        loop = (await status(agent))["agent"]["loop"]
        assert loop["failing"] == {step: "KeyError('a defect')"}
        assert loop["failures"] > 2
        agent.engine.table.sweep, backend.events = good, quiet  # type: ignore[method-assign]
        await eventually(lambda: not agent.steps.failing)

    live(host.agent(), body)
    (said,) = messages(caplog, "failed")  # once, with where
    assert said.exc_info
    assert host.active() == []
    assert host.backends[0].closed


def test_a_heartbeat_that_fails_for_a_moment_is_survived(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(agent: Agent) -> None:
        host.fail.add("beat")
        await eventually(lambda: "heartbeat" in agent.steps.failing)
        beats = host.backends[0].beats
        host.fail.clear()
        await eventually(lambda: host.backends[0].beats > beats)

    live(host.agent(host.config(heartbeat_stale_s=300.0)), body)
    assert len(messages(caplog, "failed")) == 1


@pytest.mark.parametrize("how", ["refused", "a defect"])
def test_who_cannot_beat_undoes_everything_and_fails(host: Host, how: str) -> None:
    async def body(agent: Agent) -> None:
        await asyncio.to_thread(ask, agent.config.socket_path, "register", job="a")
        if how == "refused":
            host.fail.add("beat")
        else:
            host.backends[0].beat = defect  # type: ignore[method-assign]
        await asyncio.Event().wait()

    agent = host.agent(host.config(heartbeat_stale_s=0.3))
    with pytest.raises(HostccError, match=r"heartbeat could not be written for \d.*(told|defect)"):
        live(agent, body)
    assert host.active() == []
    assert host.backends[0].closed
    assert not host.tree.base.exists()
    assert not agent.config.socket_path.exists()
    host.fail.clear()
    live(host.agent(), _nothing)  # and the next one can start


def test_a_loop_that_ends_by_itself_is_an_agent_that_ends(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostcc.daemon.agent.until_tick", defect)
    with pytest.raises(HostccError, match="the loop ended: KeyError"):
        live(host.agent())
    assert host.active() == []
    assert host.backends[0].closed


@pytest.mark.parametrize("step", ["metrics", "control", "parts", "engine", "journal"])
def test_a_step_of_the_end_that_fails_keeps_no_other_from_being_taken(
    host: Host, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    config = host.config(metrics_listen="127.0.0.1:0")
    agent = host.agent(config)
    taken: list[str] = []

    async def body(agent: Agent) -> None:
        assert agent._server is not None
        assert agent.engine is not None
        owners = {
            "metrics": (agent._metrics, "close"),
            "control": (agent._server, "close"),
            "parts": (agent.roster.parts, "stop"),
            "engine": (agent.engine, "restore"),
            "journal": (agent.journal, "close"),
        }
        for name, (owner, method) in owners.items():
            setattr(owner, method, noted(name, getattr(owner, method)))

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any) -> Any:
            taken.append(name)
            result = await awaited(real(*arguments))
            return defect() if name == step else result

        return call

    live(agent, body)
    assert taken == ["metrics", "control", "parts", "engine", "journal"]
    (said,) = messages(caplog, "stop failed")
    assert said.exc_info
    live(host.agent(config), _nothing)  # nobody holds the lock


def test_what_fails_where_nobody_waits_is_told(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(agent: Agent) -> None:
        for _ in range(2):
            asyncio.get_running_loop().call_soon(defect)
        await eventually(lambda: agent.steps.failures == 2)
        assert (await status(agent))["agent"]["loop"]["failures"] == 2

    live(host.agent(), body)
    assert len(messages(caplog, "unseen failure")) == 1


async def _nothing(_: Agent) -> None:
    pass
