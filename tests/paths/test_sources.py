"""Path tables from a file, from a hash function, from telemetry."""

from __future__ import annotations

import json
import os
import socket
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.errors import HostccError, InputError
from hostcc.paths import source_ports, telemetry
from hostcc.paths.hash_model import HashSource, Stage
from hostcc.paths.packets import TCP, UDP, Target
from hostcc.paths.sources import StaticSource
from hostcc.paths.telemetry import TelemetrySource
from tests.refusals import refusal_of

pytestmark = pytest.mark.unit

TARGET = Target("198.18.0.2", "198.18.1.2", TCP, 5001)
STATIC = """
[[path]]
src = "198.18.0.0/24"
dst = "198.18.1.0/24"
links = ["leaf1>spine1", "spine1>leaf2"]
ports = [[50000, 50001], [50010, 50010]]
[[path]]
src = "198.18.0.2"
dst = "198.18.1.2"
links = ["leaf1>spine2", "spine2>leaf2"]
ports = [[50002, 50003]]
[[path]]
src = "198.18.0.2"
dst = "198.18.1.2"
protocol = "udp"
dst_port = 4791
links = ["leaf1>spine3", "spine3>leaf2"]
ports = [[50004, 50004]]
"""


def static(tmp_path: Path, text: str = STATIC) -> StaticSource:
    (tmp_path / "paths.toml").write_text(text)
    return StaticSource.read(tmp_path / "paths.toml")


def test_static(tmp_path: Path) -> None:
    source = static(tmp_path)
    table = source.table(TARGET)
    assert table is not None
    ports = {path.links[0]: path.ports for path in table.paths}
    assert ports == {"leaf1>spine1": (50000, 50001, 50010), "leaf1>spine2": (50002, 50003)}
    roce = source.table(Target("198.18.0.2", "198.18.1.2", UDP))
    assert roce is not None
    assert [path.links[0] for path in roce.paths] == ["leaf1>spine3"]
    assert source.table(Target("198.18.7.2", "198.18.1.2")) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("path = 3", "path: expected a list"),
        ("[[path]]\nsrc = 'x'", "expected"),
        (STATIC.replace("198.18.0.0/24", "198.18.0.1/24"), "path[0].src: expected an address"),
        (STATIC.replace("[50002, 50003]", "[50003, 50002]"), "path[1].ports: expected rising"),
        (STATIC.replace("50010, 50010", "0, 70000"), "path[0].ports"),
        ("= 3", "expected TOML"),
    ],
)
def test_bad_static(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        static(tmp_path, text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def two_ways(function: str) -> Stage:
    return Stage(function, (("a",), ("b",)), seed=7)


@pytest.mark.parametrize("function", ["crc32", "crc16", "xor"])
def test_hash_model_covers_every_port_once(function: str) -> None:
    table = HashSource([two_ways(function), Stage(function, (("c",), ("d",)), 99)]).table(TARGET)
    assert table is not None
    ports = sorted(port for path in table.paths for port in path.ports)
    assert ports == list(source_ports.candidate_ports())


def test_hash_model_agrees_with_the_function() -> None:
    table = HashSource([two_ways("crc32")], 50000, 50100).table(TARGET)
    assert table is not None
    key = bytes([198, 18, 0, 2, 198, 18, 1, 2, 6])
    for path in table.paths:
        for port in path.ports:
            value = zlib.crc32(key + port.to_bytes(2, "big") + (5001).to_bytes(2, "big"), 7)
            assert path.links == (("a",), ("b",))[value % 2]


def test_neighbouring_ports_part_by_xor() -> None:
    table = HashSource([Stage("xor", tuple((f"s{n}",) for n in range(8)))]).table(TARGET)
    assert table is not None
    first = list(source_ports.candidate_ports())[:8]
    assert all(any(p in path.ports for p in first) for path in table.paths)


def test_hash_model_refuses() -> None:
    assert "crc32" in refusal_of(HashSource, [Stage("md5", (("a",),))])
    assert "at least one" in refusal_of(HashSource, [Stage("xor", ())])
    wide = Stage("xor", tuple((str(n),) for n in range(40)))
    assert "1024 paths" in refusal_of(HashSource, [wide, wide])


def record(**changed: object) -> bytes:
    fields = {
        "src": TARGET.src, "dst": TARGET.dst, "protocol": "tcp", "src_port": 50000,
        "dst_port": 5001, "hops": ["leaf1", "spine2", "leaf2"], "at": 100.0, "queue_depth": 3,
    }  # fmt: skip
    return json.dumps({**fields, **changed}).encode() + b"\n"


def test_telemetry() -> None:
    source = TelemetrySource()
    source.feed(record() + record(src_port=50001, hops=["leaf1", "spine1", "leaf2"]))
    table = source.table(TARGET)
    assert table is not None
    assert {path.links[1]: path.ports for path in table.paths} == {
        "leaf1>spine2": (50000,),
        "leaf1>spine1": (50001,),
    }
    source.feed(record(at=101.0, hops=["leaf1", "spine1", "leaf2"]))
    source.feed(record(at=99.0))  # late
    table = source.table(TARGET)
    assert table is not None
    assert [path.ports for path in table.paths] == [(50000, 50001)]
    source.forget(160.5, 60)
    table = source.table(TARGET)
    assert table is not None
    assert [path.ports for path in table.paths] == [(50000,)]
    source.forget(1000.0)
    assert source.table(TARGET) is None


@given(st.binary(max_size=400))
def test_lines_of_strangers(data: bytes) -> None:
    TelemetrySource().feed(data)


@pytest.mark.parametrize(
    "changed",
    [{"src": "x"}, {"src_port": 0}, {"hops": []}, {"at": -1}, {"protocol": "icmp"},
     {"hops": ["a"] * 40}, {"at": "now"}],
)  # fmt: skip
def test_bad_lines_are_counted(changed: dict[str, object]) -> None:
    source = TelemetrySource()
    source.feed(record(**changed) + b"\n" + record())
    assert source.refused == 1
    assert source.table(TARGET) is not None


def test_a_file_that_grows_and_is_rotated(tmp_path: Path) -> None:
    source, file = TelemetrySource(), tmp_path / "int.jsonl"
    whole = record(src_port=50001)
    file.write_bytes(record() + whole[:20])
    source.read_file(file)
    with file.open("ab") as out:
        out.write(whole[20:])
    source.read_file(file)
    table = source.table(TARGET)
    assert table is not None
    assert table.paths[0].ports == (50000, 50001)
    file.write_bytes(record(src_port=50002))
    source.read_file(file)
    table = source.table(TARGET)
    assert table is not None
    assert 50002 in table.paths[0].ports
    assert source.refused == 0


def test_records_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HostccError, match="pipe: expected a regular file"):
        TelemetrySource().read_file(tmp_path / "pipe")


def test_another_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    source = TelemetrySource()
    for name, port in (("a", 50000), ("b", 50001)):
        (tmp_path / name).write_bytes(record(src_port=port))
        source.read_file(tmp_path / name)
    assert len(source) == 2


def test_datagrams() -> None:
    source = TelemetrySource()
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        here.setblocking(False)
        assert source.read_socket(here) == 0
        there.send(record() + record(src_port=50001))
        there.send(b"")
        assert [source.read_socket(here) for _ in range(3)] == [2, 1, 0]
        assert len(source) == 2
        there.send(b"x\n" * (telemetry.MAX_DATAGRAM_LINES + 7))
        assert source.read_socket(here) == telemetry.MAX_DATAGRAM_LINES
    assert source.refused == telemetry.MAX_DATAGRAM_LINES + 7


def test_records_take_no_more_memory_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 1 << 20
    monkeypatch.setattr(telemetry, "MAX_HELD_BYTES", most)
    name = "\N{HANGUL SYLLABLE GAG}" * 64
    source = TelemetrySource()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for port in range(2000):
            hops = [f"{port:08}{name}"[:64]] * (port % 32 + 1)
            source.feed(record(dst=f"10.0.{port // 256}.{port % 256}", src_port=9, hops=hops))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < most
    assert len(source) + source.refused == 2000
    assert source.refused > 0
    source.forget(1e6)
    assert len(source) == 0
    source.feed(record())
    assert len(source) == 1


def test_what_comes_from_the_future_does_not_stay() -> None:
    source = TelemetrySource()
    source.feed(record(at=1000.0) + record(at=1061.0, src_port=50001))
    source.forget(1000.0)
    assert len(source) == 1
    source.feed(record(at=1001.0, src_port=50001))
    assert len(source) == 2


def test_threads_do_not_meet() -> None:
    source = TelemetrySource()

    def feed(first: int) -> None:
        for port in range(first, first + 300):
            source.feed(record(src_port=port))

    def ask() -> None:
        for _ in range(300):
            source.table(TARGET)
            source.forget(100.0)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(feed, 1), pool.submit(feed, 1000), pool.submit(ask)]:
            done.result()
    assert len(source) == 600
