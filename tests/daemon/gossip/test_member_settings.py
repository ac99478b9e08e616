"""How a configuration becomes a member."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.gossip import GossipConfig
from hostcc.coord.keys import files, identity
from hostcc.coord.keys.identity import HostKeys
from hostcc.coord.net.address import Address
from hostcc.daemon.gossip.member_settings import settings
from hostcc.errors import HostccError

pytestmark = pytest.mark.unit


def test_without_keys_it_stays_on_loopback_unless_that_is_meant(tmp_path: Path) -> None:
    found = settings(Config(gossip=GossipConfig(keys=str(tmp_path))), "1.0")
    assert (found.keys, found.insecure) == (None, False)
    assert found.listen == Address("127.0.0.1", 7471)
    assert found.name == socket.gethostname().split(".")[0]
    meant = settings(Config(gossip=GossipConfig(keys="", insecure=True)), "1.0")
    assert meant.listen == Address("0.0.0.0", 7471)


def test_keys_say_the_name_and_open_the_port(tmp_path: Path) -> None:
    files.write_host(tmp_path, HostKeys("node1", (identity.generate(time.time() - 1),)))
    found = settings(Config(gossip=GossipConfig(keys=str(tmp_path))), "1.0")
    assert (found.name, found.keys) == ("node1", tmp_path)
    assert found.listen.is_any


def test_what_is_configured_wins() -> None:
    gossip = GossipConfig(
        name="x", listen="[::1]:9", keys="", seeds=("b@10.0.0.2:7471",), advertise="10.0.0.1:9"
    )
    found = settings(Config(gossip=gossip), "v" * 99)
    assert (found.name, found.listen, found.advertise) == ("x", Address("::1", 9), "10.0.0.1:9")
    assert found.seeds == (("b", Address("10.0.0.2", 7471)),)
    assert len(found.software) == 32


def test_agents_on_one_machine_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Config(agent=AgentConfig(instance="h0"), gossip=GossipConfig(keys=""))
    assert settings(lab, "1.0").name == "h0"
    monkeypatch.setattr(socket, "gethostname", lambda: "no name")
    with pytest.raises(HostccError, match=r"gossip\.name: expected 1 to 64 characters"):
        settings(Config(gossip=GossipConfig(keys="")), "1.0")
