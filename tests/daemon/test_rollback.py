"""Undoing without an agent, by the journal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostcc.cli.main import main
from hostcc.config.sections.job import JobRequest
from hostcc.daemon import preflight
from hostcc.daemon.lockfile import AgentLock
from hostcc.daemon.rollback import offline
from hostcc.errors import Exit, HostccError, NoAgentError
from hostcc.paths import egress_kernel, egress_queues
from hostcc.system.procfs import Stat
from tests.hosts import Ask, Host, play


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(preflight, "missing", lambda root: [])
    return Host(tmp_path)


def killed_agent(host: Host) -> None:
    """An agent that leaves a job with a process and a connection, and no chance to tidy up."""

    async def scene() -> None:
        agent = host.agent()
        await agent.start()
        assert agent.engine is not None
        host.tree.homes[4711] = "/home/of/4711"
        agent.engine.table.register("a", JobRequest(), 4711)
        host.join("a").flags = 0
        agent.engine.table.refresh("test", again=True)
        await agent.engine.table.moved()
        agent._lock.release()
        assert agent._server is not None
        await agent._server.close()
        agent.journal.close()

    asyncio.run(scene())


def test_everything_goes_back(host: Host) -> None:
    killed_agent(host)
    sock = host.sockets[0]
    assert sock.ca.startswith("hcc_")
    answer = offline(host.folder / "run", host.make_backend, lambda root: host.tree)
    assert answer.problems == []
    assert "job-cgroup:a" in answer.undone
    assert sock.ca == "cubic"
    assert host.tree.members == {Path("/home/of/4711"): {4711}}
    assert not host.tree.base.exists()
    assert host.active() == []
    assert host.backends[-1].closed
    assert host.backends[-1].tag == host.backends[0].tag
    again = offline(host.folder / "run", host.make_backend, lambda root: host.tree)
    assert (again.undone, again.problems) == ([], [])


def test_marks_alone_leave_the_rest_for_the_next_agent(host: Host) -> None:
    killed_agent(host)
    before = host.active()
    answer = offline(
        host.folder / "run", host.make_backend, lambda root: host.tree, marks_only=True
    )
    assert (answer.undone, answer.problems) == ([], [])
    assert host.active() == before
    assert host.sockets[0].ca.startswith("hcc_")


def test_a_kernel_that_refuses_is_told_and_the_rest_is_undone(host: Host) -> None:
    killed_agent(host)
    host.fail = {"register"}
    answer = offline(host.folder / "run", host.make_backend, lambda root: host.tree)
    assert len(answer.problems) == 1
    assert "plain form" in answer.problems[0]
    assert host.active() == []


def test_not_under_a_living_agent_nor_without_a_journal(host: Host) -> None:
    with pytest.raises(NoAgentError, match="no journal"):
        offline(host.folder / "run")
    killed_agent(host)
    lock = AgentLock(host.folder / "run")
    lock.acquire()
    with pytest.raises(HostccError, match="another agent"):
        offline(host.folder / "run", host.make_backend, lambda root: host.tree)
    lock.release()


def test_with_a_run_directory_no_other_agent_is_rolled_back(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent, other = host.agent(), tmp_path / "other"
    words = ["rollback", "--socket", str(agent.config.socket_path), "--run-dir"]

    async def body(request: Ask) -> None:
        await request("register", job="a")
        assert await asyncio.to_thread(main, [*words, str(other)]) == Exit.NO_AGENT
        other.mkdir()
        (other / "journal.jsonl").touch()
        assert await asyncio.to_thread(main, [*words, str(other)]) == Exit.OK
        assert capsys.readouterr().out == "nothing to undo\n"
        assert (await request("status"))["agent"]["state"] == "active"
        assert await asyncio.to_thread(main, [*words, str(host.folder / "run")]) == Exit.OK
        assert (await request("status"))["agent"]["state"] == "observing"

    play(agent, body)


def test_a_run_directory_that_cannot_be_looked_into_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)
    with pytest.raises(HostccError, match=f"^{folder}: File name too long$"):
        offline(folder)


def test_an_agent_that_only_observes_undoes_what_another_left(host: Host) -> None:
    killed_agent(host)

    async def body(request: Ask) -> None:
        answer = await request("rollback")
        assert answer["problems"] == []
        assert "job-cgroup:a" in answer["undone"]
        assert (await request("changes"))["in_force"] == []
        assert (await request("status"))["agent"]["reason"] == "observe_only is set"
        assert (await request("rollback"))["undone"] == []

    play(host.agent(host.config(observe_only=True)), body)
    assert host.sockets[0].ca == "cubic"
    assert host.tree.members == {Path("/home/of/4711"): {4711}}
    assert not host.tree.base.exists()


def test_what_a_roll_back_could_not_undo_the_next_one_does(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = ["tc: Device or resource busy"]
    monkeypatch.setattr(egress_kernel, "remove", lambda _: refusals.pop() if refusals else "")
    agent = host.agent()

    async def body(request: Ask) -> None:
        agent.journal.begin(egress_queues.found("hcc-none"))
        await request("register", job="a")
        host.join("a")
        answer = await request("rollback")
        assert answer["problems"] == ["hcc-none: queues stay: tc: Device or resource busy"]
        assert host.active() == ["cgroup", "egress-queues:hcc-none", "job-cgroup:a"]
        answer = await request("rollback")
        assert (answer["undone"], answer["problems"]) == (["egress-queues:hcc-none"], [])
        assert host.active() == ["cgroup", "job-cgroup:a"]  # the job that runs on stays known
        await request("unfair", mode="mltcp")
        assert [job["name"] for job in (await request("status"))["jobs"]] == ["a"]

    host.tree.stats[4711] = Stat("python", 1, 100)
    play(agent, body)
