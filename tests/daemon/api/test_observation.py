"""/proc/net/tcp, read without help."""

from __future__ import annotations

import socket
from pathlib import Path

from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.job import JobConfig
from hostcc.daemon.api import observation

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000
   1: 010012C6:1F90 020012C6:C350 01 00000000:00000000
   2: 010012C6:1F91 020012C6:1389 06 00000000:00000000
   3: 010012C6:0016 020012C6:0017 01 00000000:00000000
"""
TCP6 = """\
  sl  local_address                         remote_address                        st
   0: 000000FD000000000000000001000000:1F90 000000FD000000000000000002000000:0001 08
"""


def test_connections_that_rules_name(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text(TCP)
    (tmp_path / "tcp6").write_text(TCP6)
    rules = {(0x1F90, False): "a", (5001, True): "b"}
    rows = list(observation.connections(tmp_path, rules))
    assert [(r.job, r.local, r.remote, r.state) for r in rows] == [
        ("a", "198.18.0.1:8080", "198.18.0.2:50000", "established"),
        ("b", "198.18.0.1:8081", "198.18.0.2:5001", "time-wait"),
        ("a", "[fd00::1]:8080", "[fd00::2]:1", "close-wait"),
    ]


def test_a_live_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        config = Config(agent=AgentConfig(), job=(JobConfig(name="a", remote_ports=(port,)),))
        with socket.create_connection(("127.0.0.1", port)):
            answer = observation.flows(config, None, 10)
            assert [flow.remote for flow in answer.flows] == [f"127.0.0.1:{port}"]
            assert observation.flows(config, "other", 10).total == 0
            assert observation.flows(Config(), None, 10).total == 0
