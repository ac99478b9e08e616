"""The agent from start to stop, on a kernel in memory."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path

import msgspec
import pytest

from hostcc.client import RefusedError
from hostcc.config.sections.job import JobConfig, JobRequest
from hostcc.config.sections.mltcp import MltcpConfig
from hostcc.daemon import preflight
from hostcc.errors import HostccError, InputError
from hostcc.mltcp.params import Mode
from tests.hosts import Ask, Host, play


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("hostcc").addHandler(logging.NullHandler())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(preflight, "missing", lambda root: [])
    return Host(tmp_path)


def test_a_job_by_way_of_the_socket(host: Host) -> None:
    agent = host.agent()

    async def body(request: Ask) -> None:
        answer = await request("register", job="a", weight=2.0)
        assert answer["cgroup"] == str(host.tree.path("a"))
        sock = host.join("a")
        status = await request("status")
        assert status["schema"] == "hostcc.status/1"
        assert [job["name"] for job in status["jobs"]] == ["a"]
        await request("unfair", mode="mltcp")
        assert sock.ca.startswith("hcc_")
        flows = await request("flows", job="a")
        assert flows["total"] == 1
        flow = flows["flows"][0]
        assert (flow["local"], flow["remote"]) == ("198.18.0.1:40000", "198.18.0.2:50000")
        assert flow["ours"] is True
        assert (flow["wire_port"], flow["path"], flow["level"]) == (40000, None, None)
        jobs = await request("jobs")
        assert jobs["jobs"][0]["parameters"]["weight"] == 2.0
        changes = await request("changes")
        assert {c["id"] for c in changes["in_force"]} >= {"job-cgroup:a", "mode"}
        json.dumps([status, flows, jobs, changes])

    play(agent, body)
    assert host.sockets[0].ca == "cubic"
    assert host.active() == []
    assert not host.tree.base.exists()
    assert host.backends[0].closed


def test_the_toggle_reports(host: Host) -> None:
    async def body(request: Ask) -> None:
        await request("register", job="a")
        sock = host.join("a")
        await request("unfair", mode="mltcp")
        answer = await request("unfair", mode="off")
        assert (answer["before"], answer["mode"], answer["jobs"]) == ("mltcp", "off", ["a"])
        assert sock.ca == "cubic"
        answer = await request("unfair", mode="static", weights={"a": 2, "b": 3})
        assert answer["unknown"] == ["b"]
        with pytest.raises(InputError, match="weights: expected none"):
            await request("unfair", mode="off", weights={"a": 2})

    play(host.agent(), body)


def test_rollback_leaves_an_observer_that_can_act_again(host: Host) -> None:
    agent = host.agent()

    async def body(request: Ask) -> None:
        await request("register", job="a")
        sock = host.join("a")
        await request("unfair", mode="mltcp")
        answer = await request("rollback")
        assert answer["problems"] == []
        assert "job-cgroup:a" in answer["undone"]
        assert (sock.ca, host.active(), host.backends[0].closed) == ("cubic", [], True)
        status = await request("status")
        assert status["agent"]["state"] == "observing"
        with pytest.raises(RefusedError, match="only observes: rolled back"):
            await request("register", job="a")
        verified = await request("verify")
        assert verified["observing"]
        agent.tick()
        await request("unfair", mode="mltcp")
        assert (await request("status"))["agent"]["state"] == "active"
        await request("register", job="a")

    play(agent, body)


def test_verify_shows_and_notes_what_others_edited(host: Host) -> None:
    agent = host.agent()

    async def body(request: Ask) -> None:
        await request("register", job="a")
        sock, theirs = host.join("a"), host.join("a")
        theirs.flags, theirs.ca = 2, "bbr"
        await request("unfair", mode="mltcp")
        assert (await request("verify"))["differences"] == []
        sock.ca = "reno"
        host.backends[0].problems = ["a link is gone"]
        answer = await request("verify")
        found = {d["target"]: d["found"] for d in answer["differences"]}
        assert found == {"BPF": "a link is gone", "job a": "reno on 1 connections"}
        left = answer["left_alone"]
        assert left == [{"job": "a", "congestion_control": "bbr", "connections": 1}]
        for _ in range(3):
            await request("verify")
        assert len(agent.journal.notes) == 2
        assert "note" not in {line["record"] for line in agent.journal.tail(1000)}
        await agent._check()
        assert agent.journal.tail(1)[0]["text"] == "expected attached, found a link is gone"
        assert sock.ca == "reno"
        agent.config.socket_path.unlink()

    play(agent, body)


def test_a_taken_socket_is_a_difference(host: Host) -> None:
    agent = host.agent()

    async def body(request: Ask) -> None:
        agent.config.socket_path.unlink()
        found = (await agent._verify()).differences
        assert [d.id for d in found] == ["control-socket"]

    play(agent, body)


def test_a_second_agent_is_refused_by_name(host: Host) -> None:
    async def body(request: Ask) -> None:
        with pytest.raises(HostccError, match=rf"another agent \(pid {os.getpid()}\) runs"):
            await host.agent().start()
        other = host.config(run_dir=str(host.folder / "run2"))
        with pytest.raises(HostccError, match=r"another agent \(pid \d+\) manages cgroup_root"):
            await host.agent(other).start()
        assert (await request("status"))["agent"]["pid"] == os.getpid()

    play(host.agent(), body)


def test_a_start_that_fails_undoes_itself_and_frees_the_lock(host: Host) -> None:
    host.fail = {"register"}
    with pytest.raises(HostccError, match="the kernel refused: no struct_ops here"):
        asyncio.run(host.agent().start())
    assert host.active() == []
    host.fail = set()
    (host.folder / "run" / "control.sock").write_text("in the way")
    with pytest.raises(HostccError, match="something else is there"):
        asyncio.run(host.agent().start())
    assert host.active() == []
    assert host.backends[-1].closed
    assert not host.tree.base.exists()
    (host.folder / "run" / "control.sock").unlink()

    async def nothing(request: object) -> None:
        pass

    play(host.agent(), nothing)


def test_what_is_missing_is_named(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "missing", lambda root: ["BTF (not here): get it", "root"])
    with pytest.raises(HostccError) as caught:
        asyncio.run(host.agent().start())
    assert "lacks: BTF (not here): get it; root." in str(caught.value)
    assert "--observe-only" in str(caught.value)
    assert not (host.folder / "run").exists()

    async def body(request: Ask) -> None:
        status = await request("status")
        assert status["agent"]["reason"] == "observe_only is set"
        assert (await request("jobs"))["jobs"][0]["local_ports"] == [9]
        assert (await request("flows"))["flows"] == []
        with pytest.raises(RefusedError, match="start it without observe_only"):
            await request("unfair", mode="mltcp")

    config = host.config(observe_only=True)
    with_rule = msgspec.structs.replace(config, job=(JobConfig(name="r", local_ports=(9,)),))
    play(host.agent(with_rule), body)
    assert host.backends == []


def test_keep_hands_jobs_to_the_next_agent(host: Host) -> None:
    async def first(request: Ask) -> None:
        await request("register", job="a", weight=4.0, bytes_per_iteration=1000)
        host.join("a")

    play(host.agent(host.config(on_exit="keep")), first)
    assert host.tree.path("a").is_dir()
    assert host.active() == ["cgroup", "job-cgroup:a"] + [
        change for change in host.active() if change.startswith("job-member")
    ]

    async def second(request: Ask) -> None:
        jobs = (await request("jobs"))["jobs"]
        assert [(job["name"], job["parameters"]["weight"]) for job in jobs] == [("a", 4.0)]
        assert host.sockets[0].ca.startswith("hcc_")

    play(host.agent(), second)
    assert host.active() == []


def test_after_a_crash_the_next_agent_cleans_up(host: Host) -> None:
    async def crash() -> None:
        agent = host.agent()
        await agent.start()
        assert agent.engine is not None
        agent.engine.table.register("dead", JobRequest(), os.getpid())
        agent.engine.table.register("live", JobRequest(), os.getpid())
        host.join("live")
        agent._lock.release()
        assert agent._server is not None
        for listener in agent._server._listeners:
            listener.path = host.folder / "elsewhere"  # its sockets stay behind
        await agent._server.close()

    asyncio.run(crash())
    assert (host.folder / "run" / "control.sock").exists()

    async def body(request: Ask) -> None:
        jobs = (await request("jobs"))["jobs"]
        assert [job["name"] for job in jobs] == ["live"]
        assert not host.tree.path("dead").exists()
        assert not [change for change in host.active() if "dead" in change]

    play(host.agent(), body)


def test_iterations_become_statistics(host: Host) -> None:
    agent = host.agent()

    async def body(request: Ask) -> None:
        await request("register", job="a")
        host.join("a")
        assert agent.engine is not None
        slot = agent.engine.table.jobs["a"].slot
        for period in (100, 200, 300):
            host.backends[0].pending.append((0, slot, 0, 0, 0, 0, period * 1_000_000, 0))
        host.backends[0].pending.append((0, 999, 0, 0, 0, 0, 1, 0))
        agent.tick()
        host.backends[0].states[slot]["stance"] = 1
        host.backends[0].states[slot]["period_ns"] = 300_000_000
        job = (await request("status"))["jobs"][0]
        assert job["recent"] == {
            "iterations": 3,
            "left_out": 0,
            "mean_period_s": pytest.approx(0.2),
            "p99_period_s": pytest.approx(0.3),
        }
        assert (job["stance"], job["period_s"]) == ("scaled", pytest.approx(0.3))
        host.tree.leave("a")
        agent.tick()
        agent.tick()
        assert agent.iteration_times._seen == {}

    play(agent, body)


def test_metrics(host: Host) -> None:
    config = host.config(metrics_listen="127.0.0.1:0")
    agent = host.agent(config)

    async def body(request: Ask) -> None:
        await request("register", job="a", weight=2.0)
        reader, writer = await asyncio.open_connection("127.0.0.1", agent._metrics.port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        page = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
        assert page.startswith("HTTP/1.1 200 OK\r\n")
        assert 'hostcc_job_weight{training_job="a"} 2.0' in page
        assert "hostcc_agent_active 1.0" in page
        assert 'hostcc_job_iterations_total{training_job="a"} 0.0' in page
        reader, writer = await asyncio.open_connection("127.0.0.1", agent._metrics.port)
        writer.write(b"x" * 20000)
        assert await reader.read() == b""
        writer.close()

    play(agent, body)


def test_mltcp_mode_of_the_configuration(host: Host) -> None:
    config = msgspec.structs.replace(host.config(), mltcp=MltcpConfig(mode=Mode.OFF))

    async def body(request: Ask) -> None:
        await request("register", job="a")
        assert "job-sockets:a" not in host.active()
        assert (await request("status"))["agent"]["mode"] == "off"

    play(host.agent(config), body)
