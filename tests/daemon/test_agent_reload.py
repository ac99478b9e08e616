"""SIGHUP: all of a good configuration, nothing of a bad one."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.config.load import load
from hostcc.config.schema import Config
from hostcc.daemon import preflight
from hostcc.daemon.jobs.table import JobTable
from hostcc.errors import HostccError
from hostcc.mltcp.params import Mode, Variant
from tests.hosts import Ask, Host, play, write_config


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(preflight, "missing", lambda root: [])
    return Host(tmp_path)


def test_reload(host: Host) -> None:
    path = write_config(host, "")
    agent = host.agent(load(path), path)

    async def body(request: Ask) -> None:
        await request("register", job="a")
        host.join("a")

        def told() -> dict[str, Any]:
            assert agent.engine is not None
            return {job.name: job.params for job in agent.engine.table.jobs.values()}

        before = told()
        write_config(host, "[mltcp]\nslope='x'")
        agent.reload()
        assert told() == before
        write_config(host, "[mltcp]\nslope=1.0\n[[job]]\nname='r'\nlocal_ports=[9]")
        agent.reload()
        assert set(told()) == {"a", "r"}
        assert told()["a"].shape.slope == 1.0
        write_config(host, "instance='other'\nheartbeat_s=0.3\n[mltcp]\nmode='off'")
        agent.reload()
        assert (agent.config.agent.instance, agent.config.agent.heartbeat_s) == ("host", 0.3)
        assert host.sockets[0].ca == "cubic"
        assert len(host.backends) == 1

    play(agent, body)


def test_reload_to_another_variant_registers_anew_and_keeps_the_toggle(host: Host) -> None:
    path = write_config(host, "")
    agent = host.agent(load(path), path)

    async def body(request: Ask) -> None:
        await request("register", job="a", weight=3.0)
        host.join("a")
        await request("unfair", mode="static", weights={"a": 5})
        write_config(host, "[mltcp]\nvariant='cubic'")
        agent.reload()
        assert [b.closed for b in host.backends] == [True, False]
        assert agent.engine is not None
        params = agent.engine.table.jobs["a"].params
        assert params is not None
        assert (params.variant, params.mode, params.static_weight) == (
            Variant.CUBIC,
            Mode.STATIC,
            5,
        )
        assert params.weight == 3.0
        host.fail.add("register")
        write_config(host, "[mltcp]\nvariant='reno'")
        with pytest.raises(HostccError):
            agent._take_over(load(path))
        assert agent.config.mltcp.variant is Variant.CUBIC
        assert agent.observing.startswith("could not register anew")
        agent.tick()
        host.fail.clear()
        await request("unfair", mode="mltcp")
        assert agent.engine is not None

    play(agent, body)


@pytest.mark.parametrize("error", [BpfError("no memory"), HostccError("the disk is full")])
def test_an_override_that_the_kernel_refuses_leaves_the_old_registration(
    host: Host, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    path, share = write_config(host, ""), JobTable.share
    agent = host.agent(load(path), path)

    def refused_once(*_: object) -> None:
        monkeypatch.setattr(JobTable, "share", share)
        raise error

    async def body(request: Ask) -> None:
        await request("unfair", mode="off")
        write_config(host, "[mltcp]\nvariant='cubic'")
        monkeypatch.setattr(JobTable, "share", refused_once)
        agent.reload()
        assert [backend.closed for backend in host.backends] == [True, True, False]
        assert agent.engine is not None
        assert agent.engine.backend is host.backends[-1]
        assert agent.engine.table.mode is Mode.OFF
        assert agent.config.mltcp.variant is Config().mltcp.variant

    play(agent, body)


def test_registering_anew_lets_go_of_the_groups_that_were_watched(host: Host) -> None:
    path = write_config(host, "")
    agent = host.agent(load(path), path)

    def watched(events: Path) -> int:
        files = (one for one in Path("/proc/self/fd").iterdir() if one.exists())
        return sum(one.readlink() == events for one in files)

    async def body(request: Ask) -> None:
        await request("register", job="a")
        host.join("a")
        events = host.tree.path("a") / "cgroup.events"
        events.write_text("populated 1\n")
        agent.tick()
        assert watched(events) == 1
        for variant in ("cubic", "reno"):
            write_config(host, f"[mltcp]\nvariant='{variant}'")
            agent.reload()
            agent.tick()
            assert watched(events) == 1
        events.unlink()

    play(agent, body)


def test_a_reload_that_is_asked_for_during_the_start_is_made_after_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_config(host, "")
    agent = host.agent(load(path), path)
    listen = agent._listen

    async def changed_meanwhile() -> None:
        write_config(host, "[mltcp]\nslope=1.0")
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        await listen()

    monkeypatch.setattr(agent, "_listen", changed_meanwhile)

    async def scene() -> None:
        running = asyncio.create_task(agent.run())
        while agent.config.mltcp.slope != 1.0:
            assert not running.done()
            await asyncio.sleep(0.01)
        agent._stop.set()
        await running

    asyncio.run(scene())


@pytest.mark.parametrize("at_start", [True, False])
def test_drop_ins_alone_are_a_configuration(host: Host, at_start: bool) -> None:
    """As `hostcc cluster init` makes one."""
    path = host.folder / "h.toml"
    drop_in = path.with_suffix(".d") / "10-own.toml"
    drop_in.parent.mkdir()
    if at_start:
        drop_in.write_text("")
    agent = host.agent(path=path)

    async def body(request: Ask) -> None:
        told = (await request("status"))["agent"]["config"]
        assert told == (str(path) if at_start else None)
        drop_in.write_text("[mltcp]\nslope = 1.0\n")
        agent.reload()
        assert agent.config.mltcp.slope == 1.0
        assert (await request("status"))["agent"]["config"] == str(path)

    play(agent, body)


def test_a_main_file_that_was_there_has_to_stay(host: Host) -> None:
    path = write_config(host, "[mltcp]\nslope = 1.0")
    agent = host.agent(load(path), path)

    async def body(request: Ask) -> None:
        path.unlink()
        agent.reload()
        assert agent.config.mltcp.slope == 1.0

    play(agent, body)
