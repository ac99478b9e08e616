"""All other members of a cluster, in place of the transport process of one agent.

Speaks with the agent as that process does (hostcc/coord/net/transport_process.py), but has no
sockets: it answers probes and reports of views itself, for whichever member they are for. Records
are signed with the members' own keys.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, groupby, islice
from pathlib import Path

from msgspec.structs import replace

from benchmarks.plan_cost_agent import AT_ONCE, Case
from benchmarks.plan_cost_main import JOINED
from benchmarks.plan_cost_world import World
from hostcc.coord.core import codec
from hostcc.coord.core.message import PROTOCOL, Message, Record
from hostcc.coord.keys import files
from hostcc.coord.net.pipe import Pipe
from hostcc.coord.net.pipe_messages import (
    ENCODER,
    ORDERS,
    Begin,
    PeerMessage,
    Report,
    Send,
    Started,
    TransportStatus,
)

STATUS_INTERVAL_S = 0.5
RETRY_S = 0.01
"""Between two attempts to write to a pipe that is full."""
TOLD = "told"
"""File that is there once the agent was sent the whole cluster."""


class Crowd:
    """The members that an agent believes to be connected to."""

    def __init__(self, case: Case, directory: Path) -> None:
        self._case, self._directory = case, directory
        self._name: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.pipe = Pipe(self._take, lambda _: os._exit(0))

    async def run(self) -> None:
        """Publish the cluster, then what happens in it, until the agent is gone."""
        own = await self._name
        self._report(Started(1))
        status = asyncio.create_task(self._stay())
        world = World(self._case.hosts, self._case.jobs, self._case.placement, self._case.seed)
        crowd = self._directory / "crowd"
        sign = {host: files.read_secret(crowd / host).keys[0].sign for host in world.names}
        start = (signed(one, sign) for one in world.start() if one.writer != own)
        while not (self._directory / JOINED).exists():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(RETRY_S)
        while some := tuple(islice(start, AT_ONCE)):
            await self._say(some)
        (self._directory / TOLD).touch()
        for number in count():
            await asyncio.sleep(1 / self._case.events_per_s)
            await self._say(signed(one, sign) for one in world.event(number) if one.writer != own)
        await status

    async def _say(self, records: Iterable[Record]) -> None:
        for writer, own in groupby(records, lambda record: record.writer):
            message = PeerMessage(writer, codec.encode(Message(PROTOCOL, records=tuple(own))))
            while not self._report(message):  # noqa: ASYNC110 - nothing tells when there is room
                await asyncio.sleep(RETRY_S)

    async def _stay(self) -> None:
        while True:
            self._report(TransportStatus({}, {}, {}, [], 0, 0))
            await asyncio.sleep(STATUS_INTERVAL_S)

    def _take(self, frame: bytes) -> None:
        order = ORDERS.decode(frame)
        if isinstance(order, Begin):
            self._name.set_result(order.name)
        elif isinstance(order, Send):
            for answer in answers(codec.decode(order.payload)):
                self._report(PeerMessage(order.peer, codec.encode(answer)))

    def _report(self, report: Report) -> bool:
        return self.pipe.send(ENCODER.encode(report))


def signed(record: Record, sign: Mapping[str, Callable[[bytes], bytes]]) -> Record:
    """Return a record with its writer's signature."""
    return replace(record, signature=sign[record.writer](codec.signed_bytes(record)))


def answers(message: Message) -> Iterator[Message]:
    """Return what a member that holds and follows the same answers a message."""
    if message.pings:
        yield Message(PROTOCOL, acks=message.pings, clock_ns=time.monotonic_ns())
    if message.holding is not None:
        holding = replace(message.holding, ask=False)
        yield Message(PROTOCOL, holding=holding, plan=message.plan)


async def serve(case: Case, directory: Path, sock: socket.socket) -> None:
    """Be all others for the agent at the other end of `sock`."""
    crowd = Crowd(case, directory)
    await asyncio.get_running_loop().create_unix_connection(lambda: crowd.pipe, sock=sock)
    await crowd.run()


if __name__ == "__main__":
    asyncio.run(
        serve(
            Case(**json.loads(sys.argv[1])),
            Path(sys.argv[2]),
            socket.socket(fileno=int(sys.argv[3])),
        )
    )
