"""All sources of path tables serve RoCE: static, hash, telemetry."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.rdma import path_source
from hostcc.daemon.steering.telemetry_records import Records
from hostcc.errors import HostccError, InputError
from hostcc.model import Path as Way
from hostcc.model import PathTable
from hostcc.paths.search import Hops, Probe
from hostcc.verbs.ports import FIRST, LAST
from tests.paths.network import Network, play

pytestmark = pytest.mark.unit
HERE, THERE = "198.18.1.1", "198.18.2.1"
STATIC = """
[[path]]
src = "198.18.1.0/24"
dst = "198.18.2.0/24"
protocol = "udp"
links = ["198.18.1.1>", "spine1>leaf2", ">198.18.2.1"]
ports = [[49000, 50000]]
[[path]]
src = "198.18.1.0/24"
dst = "198.18.2.0/24"
protocol = "udp"
dst_port = 4791
links = ["198.18.1.1>", "spine2>leaf2", ">198.18.2.1"]
ports = [[50001, 50002], [1024, 2000]]
[[path]]
src = "198.18.1.0/24"
dst = "198.18.2.0/24"
links = ["198.18.1.1>", "spine3>leaf2", ">198.18.2.1"]
ports = [[50003, 50004]]
[[path]]
src = "198.18.1.0/24"
dst = "198.18.2.0/24"
protocol = "udp"
links = ["198.18.1.1>", "spine4>leaf2", ">198.18.2.1"]
ports = [[1024, 40000]]
"""
HASH = """
[[fabric]]
src = "198.18.1.0/24"
dst = "198.18.2.0/24"
[[fabric.stage]]
function = "crc32"
ways = [["leaf1>spine1", "spine1>leaf2"], ["leaf1>spine2", "spine2>leaf2"]]
"""


def asked(records: Records | None = None, **paths: Any) -> PathTable:
    config = msgspec.convert(paths, PathsConfig)
    return path_source.ask(config, records or Records())(HERE, THERE)


def test_static(tmp_path: Path) -> None:
    """Of UDP to RoCE's port, with source ports that RoCE can have."""
    file = tmp_path / "paths.toml"
    file.write_text(STATIC)
    table = asked(source="static", file=str(file))
    found = {path.links[1]: (path.ports[0], path.ports[-1]) for path in table.paths}
    assert found == {"spine1>leaf2": (FIRST, 50000), "spine2>leaf2": (50001, 50002)}
    file.write_text("")
    with pytest.raises(HostccError, match=r"paths\.source static knows no path of UDP port 4791"):
        asked(source="static", file=str(file))
    with pytest.raises(InputError, match="none"):
        asked(source="static", file=str(tmp_path / "none"))


def test_hash(tmp_path: Path) -> None:
    file = tmp_path / "fabric.toml"
    file.write_text(HASH)
    table = asked(source="hash", file=str(file))
    assert len(table.paths) == 2
    ports = [port for path in table.paths for port in path.ports]
    assert sorted(ports) == list(range(FIRST, LAST + 1))
    assert table.paths[0].links[0] == f"{HERE}>"


def test_telemetry() -> None:
    records = Records()
    lines = [
        {"src": HERE, "dst": THERE, "protocol": protocol, "src_port": port, "dst_port": to,
         "hops": ["leaf1", spine, "leaf2"], "at": time.time()}
        for protocol, port, to, spine in (
            ("udp", 50000, 4791, "spine1"), ("udp", 50001, 4791, "spine2"),
            ("udp", 50002, 4791, "spine2"), ("tcp", 50003, 4791, "spine3"),
            ("udp", 50004, 9, "spine4"), ("udp", 2000, 4791, "spine5"),
        )
    ]  # fmt: skip
    records.source.feed("".join(json.dumps(line) + "\n" for line in lines).encode(), 100)
    table = asked(records, source="telemetry", socket="/run/hostcc/x")
    assert sorted(path.ports for path in table.paths) == [(50000,), (50001, 50002)]
    config = msgspec.convert({"source": "telemetry"}, PathsConfig)
    assert path_source.interval_s(config, 60.0) == path_source.TELEMETRY_S
    assert path_source.interval_s(PathsConfig(), 60.0) == 60.0


@pytest.mark.parametrize("dead", [0, 1])
def test_a_quick_look_knows_soon_which_path_is_dead(dead: int) -> None:
    """It does not ask for the distance, whose requests may go the dead way."""
    ways: list[Hops] = [("leaf1", f"spine{at}", "leaf2") for at in range(2)]
    table = PathTable(HERE, THERE, tuple(
        Way(hops[1], (f"{HERE}>", *(f">{hop}" for hop in hops[1:]), f">{THERE}"), (50000 + at,))
        for at, hops in enumerate(ways)
    ))  # fmt: skip
    asked = []

    def mute(_: int, probe: Probe) -> bool:
        asked.append(probe.port)
        return network.way(probe.port) == ways[dead] and probe.ttl > 1

    network = Network(ways, mute=mute)
    network.chosen = {50000: ways[0], 50001: ways[1]}
    settings = path_source.look_settings(table, quick=True)
    found, took_s = play(network, range(50000, 50002), settings)
    assert set(found.paths) == {ways[1 - dead]}
    assert 0 not in asked
    limit_s = path_source.QUICK_TIMEOUT_S * path_source.QUICK_ATTEMPTS
    assert took_s < 2 * limit_s
    settings = path_source.look_settings(table, quick=False)
    patient, patient_s = play(network, range(50000, 50002), settings)
    assert patient.paths.keys() == found.paths.keys()
    assert patient_s > 2 * took_s


def test_a_look_at_paths_of_several_lengths_asks_for_the_distance() -> None:
    table = PathTable(HERE, THERE, (Way("a", ("x", "y"), (50000,)), Way("b", ("z",), (50001,))))
    assert path_source.look_settings(table, quick=True).distance == 0


def test_what_a_look_at_one_port_of_each_path_leaves() -> None:
    table = PathTable(HERE, THERE, tuple(
        Way(name, (f"{HERE}>", f">{name}", f">{THERE}"), (50000 + at,))
        for at, name in enumerate(("one", "two"))
    ))  # fmt: skip
    rest = path_source.left(table, {"two"})
    assert rest is not None
    assert [path.id for path in rest.paths] == ["two"]
    assert path_source.left(table, {"one", "two", "new"}) is table
    assert path_source.left(table, ()) is None  # nobody answers: that tells nothing
    assert path_source.check(PathsConfig(source="static"))(table) is None
