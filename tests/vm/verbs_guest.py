"""In the guest: path and class of queue pairs, set at the start and changed live.

`python -m tests.vm.verbs_guest CHANGES` prints one JSON object.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

from hostcc.errors import HostccError
from hostcc.verbs import ports, steer
from hostcc.verbs.steer import Route
from tests.vm import roce_fabric
from tests.vm.roce_fabric import ADDRESS, Capture, Packet
from tests.vm.roce_pair import PATIENCE_S, Connection, Device
from tests.vm.roce_ways import ways

SIZE = 16 << 10


def seen(packets: list[Packet]) -> list[tuple[str, int, int]]:
    """(path, port, class) of what the near end sent, each once, in the order of appearance."""
    sent = [p for p in packets if p.source == ADDRESS["rxa"]]
    return list(dict.fromkeys((p.path, p.port, p.traffic_class) for p in sent))


def default_label(local: int, remote: int) -> int:
    """What stands in for label 0: a digest of both queue pairs' numbers (rdma_calc_flow_label)."""
    mixed = local * remote & (1 << 64) - 1
    mixed ^= mixed >> 20
    mixed ^= mixed >> 40
    return mixed & 0xFFFFF


def at_start(near: Device, far: Device, capture: Capture, rng: random.Random) -> list[Any]:
    """Routes given at INIT to RTR, and what was on the wire; also what paths ports take."""
    rows = []
    wanted = [(0xC000, 0), (0xFFFF, 0xFF), (0xC001, 0x68)]
    # So many that all take one path at one boot in ten million: routers hash with its seed.
    wanted += [(rng.randrange(0xC000, 0x10000), rng.randrange(256)) for _ in range(21)]
    for port, traffic_class in wanted:
        connection = Connection(near, far, Route(port, traffic_class))
        capture.take()
        connection.write(3000)
        connection.wait(1)
        known = steer.read(connection.qp)
        rows.append({
            "port": port, "class": traffic_class, "seen": seen(capture.take()),
            "read": [known.route.port, known.route.traffic_class],
        })  # fmt: skip
    default = Connection(near, far, Route())
    capture.take()
    default.write(3000)
    default.wait(1)
    label = default_label(default.pairs[0].qp_num, default.pairs[1].qp_num)
    rows.append({
        "port": ports.port_of(label), "class": 0, "seen": seen(capture.take()), "read": [None, 0]
    })  # fmt: skip
    return rows


def live(
    near: Device, far: Device, capture: Capture, rng: random.Random, changes: int
) -> dict[str, Any]:
    """Changes of a busy queue pair, with the data checked after each."""
    connection = Connection(near, far, Route(0xC111, 0x20))
    bad, took, wrong, used = 0, [], 0, []
    for number in range(changes):
        if number % 100 == 0:
            print(f"{number} changes", flush=True)
        data = rng.randbytes(SIZE)
        near.memory.write(data, SIZE)
        for piece in range(3):
            connection.write(SIZE, piece)
        route = Route(rng.randrange(0xC000, 0x10000), rng.randrange(64) << 2)
        used.append((route.port, route.traffic_class))
        try:
            took.append(steer.move(connection.qp, connection.vector(route), drain_s=PATIENCE_S))
        except HostccError as error:
            _, done = connection.queues[0].poll(8)
            codes = [one.status for one in done]
            why = f"change {len(used)}: {error}: {codes} {roce_fabric.counters()}"
            raise AssertionError(why) from error
        connection.wait(3)  # nothing more is posted: the nudge has to do
        bad += far.memory.read(SIZE, 0) != data
        if steer.read(connection.qp).route != route:
            wrong += 1
        connection.write(64)
        connection.wait(1)
    seen_routes = {(port, traffic_class) for _, port, traffic_class in seen(capture.take())}
    took.sort()
    return {
        "changes": changes, "bad": bad, "wrong": wrong, "median_ms": took[len(took) // 2] * 1e3,
        "longest_ms": took[-1] * 1e3,
        "on_the_wire": sum(route in seen_routes for route in used), "lost": capture.lost(),
    }  # fmt: skip


def probed(near: Device, far: Device, capture: Capture) -> dict[str, Any]:
    """What probes say of ports, and the path that queue pairs with those ports take."""
    taken: dict[str, list[Any]] = {}
    there, _ = ways()
    for hops, found in there.items():
        for port in found[:3]:
            connection = Connection(near, far, Route(port))
            capture.take()
            connection.write(64)
            connection.wait(1)
            taken.setdefault("/".join(hops), []).append(seen(capture.take())[0][0])
    return taken


def main() -> None:
    began = time.monotonic()
    roce_fabric.build()
    near, far = Device("rxa"), Device("rxb")
    capture, rng = Capture(), random.Random(1)
    report = {
        "probed": probed(near, far, capture),
        "start": at_start(near, far, capture, rng),
        "live": live(near, far, capture, rng, int(sys.argv[1])),
        "counters": roce_fabric.counters(),
        "seconds": time.monotonic() - began,
    }
    print("REPORT " + json.dumps(report))


if __name__ == "__main__":
    main()
