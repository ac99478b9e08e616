"""Holds by the commands, and real agents that come and go."""

from __future__ import annotations

import json
import subprocess

import pytest

from hostcc.config import newer_keys
from tests.real import HOSTCC, RealHost, until

pytestmark = pytest.mark.kernel

QUIET = "[discover]\nenabled = false\n[gpu]\nenabled = false\n"


def test_a_downgraded_agent_starts_and_names_what_it_ignores(host: RealHost) -> None:
    agent = host.start(QUIET)
    assert host.stop(agent) == 0
    place = host.folder / "run" / newer_keys.NAME
    content = json.loads(place.read_text())
    (keys,) = content["versions"].values()
    content["versions"]["999.0"] = [*keys, "later", "later.enabled"]
    place.write_text(json.dumps(content))
    agent = host.start(f"{QUIET}[later]\nenabled = true\n")
    words = "later.enabled: ignored, a key of a newer version"
    assert words in host.client("status").stdout
    assert words in host.log()
    checked = subprocess.run(
        [*HOSTCC, "agent", "--check", "--config", str(host.folder / "hostcc.toml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert words in checked.stderr
    assert host.stop(agent) == 0


def test_off_and_a_roll_back_hold_across_agents(host: RealHost) -> None:
    agent = host.start(QUIET)
    talker = host.talker("a", 7001)
    until(lambda: all(name.startswith("hcc_") for name in talker.controls()), host.log)
    assert "--hold: expected mode off" in host.client("unfair", "mltcp", "--hold").stderr
    assert host.client("unfair", "off", "--hold").returncode == 0
    agent.kill()
    agent.wait()

    agent = host.start(QUIET)
    plain = talker.controls()
    assert not any(name.startswith("hcc_") for name in plain)
    assert "mode off, held since" in host.client("status").stdout
    assert "hostcc unfair, by uid 0" in host.json("status")["agent"]["held"]
    done = host.client("rollback", "--hold")
    assert done.returncode == 0, done.stderr
    assert host.stop(agent) == 0

    host.start(QUIET)
    assert host.json("status")["agent"]["state"] == "observing"
    assert "observing only: rolled back and held since" in host.client("status").stdout
    assert talker.controls() == plain
    assert host.client("unfair", "mltcp").returncode == 0
    until(lambda: all(name.startswith("hcc_") for name in talker.controls()), host.log)
    assert host.json("status")["agent"]["held"] is None
