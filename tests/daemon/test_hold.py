"""What an operator has turned off for good stays off, whatever is started or booted."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from hostcc.client import RefusedError
from hostcc.config.sections import agent as agent_section
from hostcc.config.sections.agent import USUAL_STATE_DIR
from hostcc.daemon import preflight
from hostcc.daemon.hold import HoldFile
from hostcc.daemon.rollback import offline
from hostcc.errors import HostccError, InputError, NoAgentError
from tests.hosts import Ask, Host, play


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("hostcc").addHandler(logging.NullHandler())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(preflight, "missing", lambda root: [])
    return Host(tmp_path)


def boot(host: Host) -> None:
    """The journal of before a boot is of no use."""
    (host.folder / "run" / "journal.jsonl").unlink()


def test_off_stays_off_until_an_operator_says_otherwise(host: Host) -> None:
    async def turn_off(request: Ask) -> None:
        await request("register", job="a")
        assert (await request("status"))["agent"]["held"] is None
        await request("unfair", mode="off", hold=True)
        with pytest.raises(InputError, match='hold: expected false with mode "mltcp"'):
            await request("unfair", mode="mltcp", hold=True)

    async def still_off(request: Ask) -> None:
        await request("register", job="a")
        sock = host.join("a")
        agent = (await request("status"))["agent"]
        assert (agent["state"], agent["mode"]) == ("active", "off")
        assert f"hostcc unfair, by uid {os.getuid()}, pid {os.getpid()}" in agent["held"]
        assert sock.ca == "cubic"
        await request("unfair", mode="mltcp")
        assert (await request("status"))["agent"]["held"] is None

    async def as_configured(request: Ask) -> None:
        agent = (await request("status"))["agent"]
        assert (agent["mode"], agent["held"]) == ("mltcp", None)

    play(host.agent(), turn_off)
    boot(host)
    play(host.agent(), still_off)
    play(host.agent(), as_configured)


def test_a_roll_back_holds_and_an_ordinary_one_does_not(host: Host) -> None:
    async def roll_back(request: Ask) -> None:
        await request("rollback")

    async def roll_back_for_good(request: Ask) -> None:
        assert (await request("status"))["agent"]["state"] == "active"
        await request("rollback", hold=True)
        agent = (await request("status"))["agent"]
        assert "rolled back and held since" in agent["reason"]
        assert agent["reason"] == agent["held"]

    async def observing(request: Ask) -> None:
        agent = (await request("status"))["agent"]
        assert agent["state"] == "observing"
        assert agent["reason"] == agent["held"]
        assert "rolled back and held since" in agent["reason"]
        with pytest.raises(RefusedError, match="only observes: rolled back and held"):
            await request("register", job="a")
        await request("unfair", mode="mltcp")
        agent = (await request("status"))["agent"]
        assert (agent["state"], agent["held"]) == ("active", None)

    play(host.agent(), roll_back)
    play(host.agent(), roll_back_for_good)
    boot(host)
    play(host.agent(), observing)


def test_without_an_agent(host: Host) -> None:
    async def nothing(request: Ask) -> None:
        pass

    async def observing(request: Ask) -> None:
        assert "rolled back and held" in (await request("status"))["agent"]["reason"]

    play(host.agent(), nothing)
    offline(host.folder / "run", make_tree=lambda root: host.tree, hold=True)
    play(host.agent(), observing)


def test_without_an_agent_after_a_boot(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = host.folder / "run"
    with pytest.raises(NoAgentError, match="no journal"):  # maybe not what was meant
        offline(run_dir, make_tree=lambda root: host.tree, hold=True)
    monkeypatch.setattr(agent_section, "USUAL_RUN_DIR", str(run_dir))
    monkeypatch.setattr(agent_section, "USUAL_STATE_DIR", host.folder / "lib")
    answer = offline(run_dir, make_tree=lambda root: host.tree, hold=True)
    assert (answer.undone, answer.problems) == ([], [])

    async def observing(request: Ask) -> None:
        assert "rolled back and held" in (await request("status"))["agent"]["reason"]

    play(host.agent(), observing)


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b'{"what":"off","who":"x","at":-1}'])
def test_what_cannot_be_read_holds(host: Host, content: bytes) -> None:
    async def observing(request: Ask) -> None:
        assert "unreadable" in (await request("status"))["agent"]["reason"]
        await request("unfair", mode="off")

    (host.folder / "run").mkdir()
    (host.folder / "run" / "hold.json").write_bytes(content)
    play(host.agent(), observing)
    assert not (host.folder / "run" / "hold.json").exists()


def test_a_hold_that_cannot_be_written_does_nothing(host: Host) -> None:
    async def body(request: Ask) -> None:
        (host.folder / "run" / "hold.new").mkdir()
        with pytest.raises(HostccError, match="not held, and nothing done"):
            await request("rollback", hold=True)
        with pytest.raises(HostccError, match="not held, and nothing done"):
            await request("unfair", mode="off", hold=True)
        agent = (await request("status"))["agent"]
        assert (agent["state"], agent["mode"], agent["held"]) == ("active", "mltcp", None)

    play(host.agent(), body)


def test_where_it_is(tmp_path: Path) -> None:
    assert HoldFile(Path("/run/hostcc")).path == USUAL_STATE_DIR / "hold.json"
    made = HoldFile(tmp_path)
    made.write("off", "somebody\x1b[31m" * 50)
    assert json.loads(made.path.read_text())["what"] == "off"
    assert (made.path.stat().st_mode & 0o777) == 0o600
    assert "\x1b" not in str(made.line)
    again = HoldFile(tmp_path)
    assert again.read() == made.current
    again.release()
    again.release()
    assert HoldFile(tmp_path).read() is None
    made.path.write_text("{}")
    made.path.chmod(0o666)
    found = HoldFile(tmp_path).read()
    assert found is not None
    assert found.what == "rollback"
