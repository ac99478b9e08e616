"""Performance of one host's transport: handshakes, messages, round trips, memory.

Both ends are in this process and one asyncio loop, over loopback and CURVE, without limits; CPU
figures are of both ends together.  Memory is of the accepting end alone: the connections come
from another process.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import msgspec

from benchmarks import options
from benchmarks.context import Context
from benchmarks.harness import repeated
from benchmarks.headings import Heading, cells, columns
from benchmarks.record import Record
from hostcc.coord.keys import files
from hostcc.coord.keys import identity as keys
from hostcc.coord.keys.identity import HostKeys
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address
from hostcc.coord.net.transport import Transport
from hostcc.coord.net.transport_settings import TransportSettings

MUCH = 1e12
WITHIN_S = 60.0
OPEN = TransportSettings(
    messages_per_s=MUCH,
    messages_burst=MUCH,
    bytes_per_s=MUCH,
    bytes_burst=MUCH,
    all_per_s=MUCH,
    all_burst=MUCH,
    connects_burst=MUCH,
    accepts_burst=MUCH,
    max_strangers=1 << 20,
    handshake_s=WITHIN_S,
)
HANDSHAKES = 200
ROUND_TRIPS = 2000
BYTES = 500
"""Of a message: a few records' worth of announcements."""
FLOOD_S = 3.0
SETTLE_S, TICK_S = 1.0, 0.2
MOST = 0.95
"""Of the connections; on a busy machine some handshakes begin anew."""


class Figures(msgspec.Struct, frozen=True):
    """One run."""

    handshake_s: Annotated[float, Heading("handshake ms", 2, 1e3)]
    """From dialling to the arrival of the first message."""
    handshake_cpu_s: Annotated[float, Heading("CPU ms, both ends", 2, 1e3)]
    """Of both ends."""
    round_trip_s: Annotated[float, Heading("round trip us", 0, 1e6)]
    """Median."""
    round_trip_p99_s: Annotated[float, Heading("p99 us", 0, 1e6)]
    messages_per_s: Annotated[float, Heading("messages/s", 0)]
    """That arrived."""
    message_cpu_s: Annotated[float, Heading("CPU us, both ends", 1, 1e6)]
    """Of both ends, for each message that arrived."""
    connection_bytes: Annotated[float, Heading("kB / connection", 1, 1e-3)]
    """Resident memory of the accepting end, for each connection."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many connections."""
    parser.add_argument(
        "--connections",
        type=options.whole("--connections", 10, 2000),
        default=1000,
        metavar="N",
        help="connections held to find the memory of one (default: %(default)s)",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure."""
    found, failures = repeated(
        context,
        Figures,
        "gossip-transport",
        {"connections": args.connections},
        lambda _: asyncio.run(measure(args.connections)),
    )
    return Record(
        benchmark="gossip-transport",
        title="one host's transport on loopback",
        parameters={"connections": args.connections, "runs": context.runs, "bytes": BYTES},
        columns=[
            *columns(Figures),
        ],
        rows=[dict(cells(found))] if found else [],
        failures=failures,
    )


async def measure(connections: int) -> Figures:
    """One run.  Raises HostccError, TimeoutError."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        hosts = [HostKeys(name, (keys.generate(time.time() - 1),)) for name in ("server", "client")]
        for host in hosts:
            files.write_host(top / host.name, host)
            for other in hosts:
                files.allow(top / host.name, other.member)
        here = Address("127.0.0.1", 0)
        ends = Ends()
        server = Transport("server", here, Keyring(top / "server"), ends.at_server, settings=OPEN)
        client = Transport("client", here, Keyring(top / "client"), ends.at_client, settings=OPEN)
        await server.start()
        await client.start()
        ends.server, ends.client = server, client
        ticks = asyncio.create_task(_tick(server, client))
        try:
            handshake = await _handshakes(ends)
            trips = await _round_trips(ends)
            flood = await _flood(ends)
            memory = await _memory(ends, top / "client", connections)
        finally:
            ticks.cancel()
            await client.stop()
            await server.stop()
    return Figures(*handshake, *trips, *flood, memory)


async def _tick(*transports: Transport) -> None:
    """What the rounds of the gossip do."""
    while True:
        await asyncio.sleep(TICK_S)
        for transport in transports:
            transport.tick()


class Ends:
    """Both ends, and what arrives there."""

    server: Transport
    client: Transport

    def __init__(self) -> None:
        self.arrived = 0
        self.answered = asyncio.Event()
        self.came = asyncio.Event()
        self.echo = False

    def at_server(self, peer: str, data: bytes) -> None:
        """Count, and answer if that is what is measured."""
        self.arrived += 1
        self.came.set()
        if self.echo:
            self.server.send(peer, None, data)

    def at_client(self, _peer: str, _data: bytes) -> None:
        """An answer."""
        self.answered.set()

    def send(self) -> bool:
        """From client to server."""
        return self.client.send("server", self.server.address, b"x" * BYTES)


async def _handshakes(ends: Ends) -> tuple[float, float]:
    took = []
    before = _cpu()
    for _ in range(HANDSHAKES):
        ends.came.clear()
        start = time.perf_counter()
        ends.send()
        await asyncio.wait_for(ends.came.wait(), WITHIN_S)
        took.append(time.perf_counter() - start)
        ends.client.hang_up("server")
    return statistics.median(took), (_cpu() - before) / HANDSHAKES


async def _round_trips(ends: Ends) -> tuple[float, float]:
    ends.echo = True
    took = []
    for _ in range(ROUND_TRIPS):
        ends.answered.clear()
        start = time.perf_counter()
        ends.send()
        await asyncio.wait_for(ends.answered.wait(), WITHIN_S)
        took.append(time.perf_counter() - start)
    ends.echo = False
    return statistics.median(took), statistics.quantiles(took, n=100)[98]


async def _flood(ends: Ends) -> tuple[float, float]:
    first, cpu, start = ends.arrived, _cpu(), time.perf_counter()
    while time.perf_counter() - start < FLOOD_S:
        while ends.send():
            pass
        await asyncio.sleep(0)
    seconds = time.perf_counter() - start
    arrived = ends.arrived - first
    return arrived / seconds, (_cpu() - cpu) / max(arrived, 1)


async def _memory(ends: Ends, directory: Path, count: int) -> float:
    await asyncio.sleep(SETTLE_S)  # what the flood has left in the queues
    before, had = _resident(), ends.server.connections()[1]
    command = [sys.executable, "-m", "benchmarks.gossip_clients", str(directory)]
    with subprocess.Popen(  # noqa: ASYNC220 - the loop has nothing else to do meanwhile
        [*command, str(ends.server.address), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as clients:
        try:
            first = ends.arrived
            async with asyncio.timeout(WITHIN_S):
                while ends.arrived - first < MOST * count:  # noqa: ASYNC110 - counted elsewhere
                    await asyncio.sleep(0.05)
            await asyncio.sleep(SETTLE_S)
            more = _resident() - before
            held = ends.server.connections()[1] - had
        finally:
            clients.kill()
    return more / max(held, 1)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
