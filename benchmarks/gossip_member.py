"""`python -m benchmarks.gossip_member JSON`: one member of gossip-sockets, as a process.

Takes part until standard input ends, and writes a line of JSON a few times a second: its
agreement with other members, and its use of the machine.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import sys
import time
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec

from hostcc import log
from hostcc.coord.core import payloads
from hostcc.coord.core.payloads import Profile
from hostcc.coord.core.settings import Settings
from hostcc.coord.net import address
from hostcc.coord.net.service import GossipService, ServiceSettings
from hostcc.coord.net.transport_settings import TransportSettings
from hostcc.model import ClusterView, Plan

REPORT_EVERY_S = 0.25
LOOK_EVERY = 20
"""ViewReports between looks at descriptors and memory: looking costs more than gossip does."""
JOB = "train"


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who to be."""

    name: str
    listen: str
    keys: str
    seeds: Annotated[tuple[str, ...], msgspec.Meta(max_length=64)] = ()
    """NAME@HOST:PORT."""
    quick: bool = False
    """Everything several times as fast as on a real host, for tests."""


QUICK = Settings(
    round_s=0.1,
    sync_s=0.4,
    probe_s=0.3,
    ack_s=0.15,
    suspect_s=0.5,
    rejoin_s=1.0,
    view_s=0.2,
    agree_s=2.0,
)
QUICK_TRANSPORT = TransportSettings(retry_s=(0.1, 1.0), down_s=2.0, keepalive_s=1)


class ProcessUse(msgspec.Struct, frozen=True):
    """CPU time, descriptors and memory of the process."""

    at: float
    """CLOCK_MONOTONIC."""
    cpu_s: float
    descriptors: int
    sockets: int
    """Of the descriptors: connections and the listening socket."""
    threads: int
    resident_bytes: int


class Line(msgspec.Struct, frozen=True):
    """One line of output: agreement, connections, use of the machine."""

    alive: int
    """Other members."""
    held: str
    active: str
    agreed: bool
    dialled: int
    accepted: int
    taken: ProcessUse


def main() -> int:
    """Run the member; the exit status."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    log.configure("warning", "text")
    asyncio.run(_take_part(order))
    return 0


async def _take_part(order: Order) -> None:
    settings = ServiceSettings(
        name=order.name,
        listen=address.parse(order.listen, "listen"),
        keys=Path(order.keys),
        seeds=tuple(address.parse_seed(seed, "seeds") for seed in order.seeds),
        software="bench",
        gossip=QUICK if order.quick else Settings(),
        transport=QUICK_TRANSPORT if order.quick else TransportSettings(),
    )
    service = GossipService(settings, _plan, "bench", rng=Random())
    await service.start()
    profile = Profile(compute_s=0.1, comm_start_s=0.1, work=1e12, gpus=8.0, period_s=0.2)
    service.node.publish(payloads.PROFILE, JOB, profile)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    last = b""
    taken = _taken()
    for number in itertools.count():
        if ended.is_set():
            break
        fresh = number % LOOK_EVERY == 0
        taken = _taken() if fresh else taken
        line = msgspec.json.encode(_line(service, taken))
        if line != last or fresh:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.flush()
        last = line
        await asyncio.sleep(REPORT_EVERY_S)
    await service.stop()


def _plan(view: ClusterView) -> Plan:
    return Plan(view.digest)


def _line(service: GossipService, taken: ProcessUse) -> Line:
    status = service.status()
    return Line(
        alive=status.members.get("alive", 0),
        held=status.held,
        active=status.active,
        agreed=status.agreed,
        dialled=status.dialled,
        accepted=status.accepted,
        taken=taken,
    )


def _taken() -> ProcessUse:
    kinds = _descriptors()
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return ProcessUse(
        at=time.monotonic(),
        cpu_s=used.ru_utime + used.ru_stime,
        descriptors=len(kinds),
        sockets=sum(kind.startswith("socket:") for kind in kinds),
        threads=sum(1 for _ in Path("/proc/self/task").iterdir()),
        resident_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
    )


def _descriptors() -> list[str]:
    found = []
    for entry in os.scandir("/proc/self/fd"):
        try:
            found.append(str(Path(entry.path).readlink()))
        except FileNotFoundError:  # the one that lists them
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
