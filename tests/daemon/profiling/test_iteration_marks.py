"""Listening for marks, however many come."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.measure import MarksConfig
from hostcc.daemon.profiling.iteration_marks import MESSAGES_PER_TICK, MarkListener
from hostcc.errors import HostccError
from hostcc.mark import HELLO
from hostcc.measure.discover.owners import Owners
from tests.daemon.declared import check_declared
from tests.daemon.profiling.hosts import OWN, ToyHost
from tests.patience import Patience

pytestmark = pytest.mark.unit


async def flood(address: str, rounds: int) -> None:
    """As much as the socket takes, again and again."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for _ in range(rounds):
            try:
                while True:
                    sender.sendto(HELLO, address)
            except BlockingIOError:
                await asyncio.sleep(0)


async def until_refused(part: MarkListener, address: str, count: int) -> None:
    """All that is due is taken, and no more."""
    patience = Patience(30)
    while part.view().refused < count and patience.lasts():
        await flood(address, 10)
    await flood(address, 100)
    assert part.view().refused == count
    check_declared(part)


def test_a_flood_is_looked_at_in_parts(tmp_path: Path) -> None:
    async def scene() -> None:
        address = str(tmp_path / "marks.sock")
        host = ToyHost(tmp_path, Config(agent=OWN, marks=MarksConfig(socket=address)))
        part = MarkListener(host, Owners)
        part.start()
        try:
            await until_refused(part, address, MESSAGES_PER_TICK)
            await part.tick()
            await until_refused(part, address, 2 * MESSAGES_PER_TICK)
            assert part.verify() == []
        finally:
            part.stop()

    asyncio.run(scene())


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    address = tmp_path / "marks.sock"
    address.write_text("precious")
    host = ToyHost(tmp_path, Config(agent=OWN, marks=MarksConfig(socket=str(address))))
    part = MarkListener(host, Owners)
    with pytest.raises(HostccError, match=r"marks socket .*: something else is there"):
        part.start()
    assert address.read_text() == "precious"
