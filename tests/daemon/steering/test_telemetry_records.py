"""Records of telemetry as they come: who may send, how much is taken, what is cleaned up."""

from __future__ import annotations

import asyncio
import grp
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hostcc.answers.parts import TelemetryPart
from hostcc.config.schema import Config
from hostcc.config.sections.gossip import GossipConfig
from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.steering.telemetry_records import MAX_LINES_PER_TICK, Records, TelemetryListener
from hostcc.errors import HostccError
from hostcc.paths.packets import TCP, Target
from tests.daemon.declared import check_declared
from tests.daemon.profiling.hosts import OWN, ToyHost

pytestmark = pytest.mark.unit

TARGET = Target("198.18.0.2", "198.18.1.2", TCP, 5001)
GROUP = grp.getgrgid(os.getgid()).gr_name


def record(port: int = 50000, at: float | None = None) -> bytes:
    fields = {
        "src": TARGET.src, "dst": TARGET.dst, "protocol": "tcp", "src_port": port,
        "dst_port": TARGET.dst_port, "hops": ["leaf1", "spine1", "leaf2"],
        "at": time.time() if at is None else at,
    }  # fmt: skip
    return json.dumps(fields).encode() + b"\n"


class Scene:
    """The part, on a host that does nothing else."""

    def __init__(self, folder: Path, **more: Any) -> None:
        folder.mkdir(mode=0o755, exist_ok=True)
        self.path = folder / "int.sock"
        paths = {"enabled": True, "source": "telemetry", "socket": str(self.path), **more}
        config = Config(agent=OWN, gossip=GossipConfig(enabled=True), paths=PathsConfig(**paths))
        self.host = ToyHost(folder, config, engine=SimpleNamespace())
        self.records = Records()
        self.part = TelemetryListener(self.host, self.records)

    def change(self, **more: Any) -> None:
        paths = msgspec.structs.replace(self.host.config.paths, **more)
        self.host.config = msgspec.structs.replace(self.host.config, paths=paths)

    def play(self, body: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            self.part.start()
            try:
                await body()
            finally:
                self.part.stop()

        asyncio.run(whole())

    def send(self, data: bytes) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(data, str(self.path))

    @property
    def config(self) -> PathsConfig:
        return self.host.config.paths


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_records_arrive_and_the_socket_goes_with_the_part(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def body() -> None:
        scene.send(record() + record(50001))
        await some_turns()
        table = scene.records.current(scene.config).table(TARGET)
        assert table is not None
        assert [path.ports for path in table.paths] == [(50000, 50001)]
        assert scene.part.view() == TelemetryPart(socket=str(scene.path), records=2)
        check_declared(scene.part)
        assert scene.part.verify() == []

    scene.play(body)
    assert not scene.path.exists()


def test_beside_a_file(tmp_path: Path) -> None:
    scene = Scene(tmp_path, file=str(tmp_path / "int.jsonl"))
    Path(scene.config.file).write_bytes(record(50001))

    async def body() -> None:
        scene.send(record())
        await some_turns()
        scene.records.current(scene.config)
        assert len(scene.records.source) == 2

    scene.play(body)


def test_a_flood_is_looked_at_in_parts(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    lines = b"no record\n" * 100

    async def flood() -> None:
        for _ in range(100):
            try:
                while True:
                    scene.send(lines)
            except BlockingIOError:
                await asyncio.sleep(0)

    async def body() -> None:
        source = scene.records.source
        await flood()
        assert source.refused == MAX_LINES_PER_TICK
        await scene.part.tick()
        await flood()
        assert source.refused == 2 * MAX_LINES_PER_TICK

    scene.play(body)


def test_only_root_or_the_group(tmp_path: Path) -> None:
    for group, mode in (("", 0o600), (GROUP, 0o660)):
        scene = Scene(tmp_path / (group or "none"), socket_group=group)

        async def body(scene: Scene = scene, mode: int = mode) -> None:
            found = scene.path.stat()
            assert stat.S_IMODE(found.st_mode) == mode
            assert found.st_gid == os.getgid()
            scene.path.chmod(0o666)
            (wrong,) = scene.part.verify()
            assert (wrong.id, wrong.found[:9]) == ("telemetry-socket", "mode 0666")

        scene.play(body)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostccError, match=r"paths\.socket_group: expected a group of this host"):
        Scene(tmp_path / "a", socket_group="no-such-group").part.start()
    open_to_all = tmp_path / "b"
    scene = Scene(open_to_all)
    open_to_all.chmod(0o777)
    with pytest.raises(HostccError, match="expected mode 0755"):
        scene.part.start()
    scene.part.stop()
    assert not scene.path.exists()


def test_a_socket_that_is_exchanged_is_seen_and_left_alone(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def body() -> None:
        scene.path.rename(tmp_path / "away")  # keeps the inode in use
        assert [one.found for one in scene.part.verify()] == ["absent or replaced"]
        scene.path.write_text("of somebody else")

    scene.play(body)
    assert scene.path.read_text() == "of somebody else"


def test_a_reload_moves_the_socket(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def body() -> None:
        scene.change(socket=str(tmp_path / "other.sock"))
        await scene.part.tick()
        assert not scene.path.exists()
        assert (tmp_path / "other.sock").is_socket()

    scene.play(body)
    assert not (tmp_path / "other.sock").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"enabled": False}, "paths.enabled is false"),
        ({"source": "hash"}, 'paths.source is "hash"'),
        ({"socket": ""}, "paths.socket is not set"),
    ],
)
def test_off(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    scene = Scene(tmp_path)
    scene.change(**change)
    assert scene.part.disabled_reason() == why


def test_old_records_go_by_themselves(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def body() -> None:
        scene.send(record(at=time.time() - scene.config.full_s - 1))
        await some_turns()
        assert len(scene.records.source) == 1
        await scene.part.tick()
        assert len(scene.records.source) == 0

    scene.play(body)
