"""In the guest: programs that know nothing of hostcc, with the transport shim preloaded.

`python -m tests.vm.shim_guest` reads the name of a part from each line, and answers with one
JSON object: what was on the wire, what the programs returned, what the shim counted.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import shim as bench
from benchmarks.context import Context
from hostcc.pcie.semaphore import Semaphores, Settings
from hostcc.verbs.build import SHIM
from hostcc.verbs.plan_region import Pacing, PlanRegion, RdmaJob
from hostcc.verbs.process_counts import read_counts
from tests.vm import roce_fabric
from tests.vm.allreduce import STOP
from tests.vm.patience import listens, until
from tests.vm.programs import WORK_S, Programs
from tests.vm.roce_fabric import ADDRESS, Capture
from tests.vm.wire import Place, ranked, running, sent

PLAN, COUNTS = Path("/dev/shm/hostcc-rdma"), Path("/dev/shm/hostcc-qp")
CLASS, OTHER_CLASS = 0x68, 0x28
STALE_S = 60.0
FUZZED_CHANGES = 1000
MOST = 8000
"""Packets after which a move should have been seen."""
PERFTEST_PORT, ALLREDUCE_PORT = 18515, 18600
Sides = tuple[list[str], list[str]]


class Agent:
    """What the agent would do: a plan, and a sign of life."""

    def __init__(self, **wishes: Any) -> None:
        self.region = PlanRegion.create(PLAN, jobs=4, stale_s=STALE_S)
        self.say(**wishes)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def say(self, ports: tuple[int, ...] = (), **wishes: Any) -> None:
        both: tuple[tuple[str, tuple[int, ...]], ...] = ()
        if ports:
            both = tuple((ADDRESS[end], ports) for end in ("rxa", "rxb"))
        self.region.publish([RdmaJob("job", ports=both, **wishes)])

    def die(self) -> None:
        """No beat any more; what the last one was good for is over at once."""
        self._stop.set()
        self._thread.join()
        self.region._header.stale_us = 1

    def close(self) -> None:
        self.die()
        self.region.close()

    def _live(self) -> None:
        while not self._stop.wait(0.1):
            self.region.beat()


def write_bw(count: int, size: int = 16384, *more: str) -> Sides:
    # Soft-RoCE breaks at its depth of 128; 2^20 * 4 us is a late time-out.
    words = ["ib_write_bw", "-x", "1", "-s", str(size), "-n", str(count), "-F", "-t", "8"]
    words += ["-u", "20", *more]
    return [*words, "-d", "rxb"], [*words, "-d", "rxa", "127.0.0.1"]


def pingpong() -> Sides:
    words = ["ibv_rc_pingpong", "-g", "1", "-n", "50"]
    return [*words, "-d", "rxb"], [*words, "-d", "rxa", "127.0.0.1"]


def allreduce(compute_s: float, port: int = ALLREDUCE_PORT) -> Sides:
    """Until told to stop."""
    words = [sys.executable, "-m", "tests.vm.allreduce"]
    more = [str(port), "1000000", str(compute_s)]
    return [*words, "0", *more], [*words, "1", *more]


class Run(Programs):
    """A server and a client, both in the job; the client starts once the server listens."""

    def __init__(self, sides: Sides, port: int = PERFTEST_PORT, **environment: str) -> None:
        super().__init__(**{"LD_PRELOAD": str(SHIM.target), "HOSTCC_JOB": "job"} | environment)
        self.start(sides[0])
        self.await_server(lambda: listens(port))
        self.start(sides[1])


def wire(capture: Capture) -> list[list[Any]]:
    return ranked(sent(capture))


def sending(capture: Capture, *wanted: Place) -> list[list[Any]]:
    """The wire once packets are of all of `wanted` and no others; without, whatever comes."""
    return running(capture, lambda seen: not wanted or seen == set(wanted), MOST)


def ports_of(capture: Capture) -> tuple[int, int]:
    """A source port for each path, by trying."""
    from hostcc.verbs.steer import Route
    from tests.vm.roce_pair import Connection, Device

    near, far = Device("rxa"), Device("rxb")
    found: dict[str, int] = {}
    for port in range(0xC200, 0xC240):
        connection = Connection(near, far, Route(port))
        capture.take()
        connection.write(64)
        connection.wait(1)
        rows = wire(capture)
        found.setdefault(rows[0][0], port)
        if len(found) == 2:
            return found["p0"], found["p1"]
    raise AssertionError("one path only")


def counted() -> list[Any]:
    return [msgspec.to_builtins(one, enc_hook=str) for one in read_counts(COUNTS)]


def quiet(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """No agent; then a stale one: as without the shim."""
    report = {}
    capture.take()
    run = Run(write_bw(400))
    report["none"] = {**run.end(), "wire": wire(capture), "counts": counted()}
    agent = Agent(ports=(ports[0],), traffic_class=CLASS)
    agent.die()
    run = Run(write_bw(400))
    report["stale"] = {**run.end(), "wire": wire(capture), "counts": counted()}
    agent.region.close()
    return report


def steered(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """Path and class from the plan; then another path while data flows."""
    report = {}
    agent = Agent(ports=(ports[0],), traffic_class=CLASS)
    capture.take()
    for name, sides in (("pingpong", pingpong()), ("write_bw", write_bw(400))):
        run = Run(sides)
        report[name] = {**run.end(), "wire": wire(capture)}
    for name, sides in (
        ("live", write_bw(6000)),
        ("old_post", write_bw(6000, 16384, "--use_old_post_send")),
    ):
        agent.say(ports=(ports[0],), traffic_class=CLASS)
        run = Run(sides)
        before = sending(capture)
        agent.say(ports=(ports[1],), traffic_class=CLASS)
        after = sending(capture, ("p1", ports[1], CLASS))
        counts = counted()
        report[name] = {**run.end(), "before": before, "after": after, "counts": counts}
    agent.close()
    return report


def lengths(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """Short messages keep their path and class, long ones are followed by the planned ones."""
    report = {}
    agent = Agent(ports=(ports[1],), traffic_class=CLASS)
    agent.region._header.long_bytes = 8192
    for name, more in (("extended", ()), ("old_post", ("--use_old_post_send",))):
        capture.take()
        run = Run(write_bw(400, 4096, *more))
        short = {**run.end(), "wire": wire(capture)}
        run = Run(write_bw(6000, 16384, *more))
        after, counts = sending(capture, ("p1", ports[1], CLASS)), counted()
        report[name] = {"short": short, "long": {**run.end(), "after": after, "counts": counts}}
    agent.close()
    return report


def late(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """Queue pairs connect, by both ways of posting, and only then there is an agent."""
    report = {}
    for name, more in (("extended", ()), ("old_post", ("--use_old_post_send",))):
        run = Run(write_bw(6000, 16384, *more))
        before, unseen = sending(capture), counted()
        agent = Agent(ports=(ports[1],), traffic_class=CLASS)
        after, counts = sending(capture, ("p1", ports[1], CLASS)), counted()
        report[name] = {
            **run.end(), "before": before, "unseen": unseen, "after": after, "counts": counts
        }  # fmt: skip
        agent.close()
    return report


def moved(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """A two-process all-reduce moved to and fro, then deserted by its agent."""
    agent = Agent(ports=(ports[0],), traffic_class=CLASS)
    run = Run(allreduce(0.02), ALLREDUCE_PORT)
    seen = [sending(capture)]
    for change in range(1, 7):
        path, port = change % 2, ports[change % 2]
        agent.say(ports=(port,), traffic_class=CLASS)
        seen.append(sending(capture, (f"p{path}", port, CLASS)))
    counts = counted()
    agent.die()
    deserted = sending(capture)
    STOP.touch()
    report = {**run.end(), "seen": seen, "deserted": deserted, "counts": counts}
    STOP.unlink()
    agent.region.close()
    return report


def two_jobs(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """Two jobs on one path: one is moved to the other path, live, and both keep their class."""
    agent = Agent()

    def plan(*choices: tuple[str, int, int]) -> None:
        agent.region.publish(
            [
                RdmaJob(name, cls, tuple((ADDRESS[end], (port,)) for end in ("rxa", "rxb")))
                for name, cls, port in choices
            ]
        )

    plan(("first", CLASS, ports[0]), ("second", OTHER_CLASS, ports[0]))
    runs = [
        Run(allreduce(0.05, port), port, HOSTCC_JOB=name)
        for port, name in enumerate(("first", "second"), ALLREDUCE_PORT)
    ]
    first = ("p0", ports[0], CLASS)
    before = sending(capture, first, ("p0", ports[0], OTHER_CLASS))
    plan(("first", CLASS, ports[0]), ("second", OTHER_CLASS, ports[1]))
    after = sending(capture, first, ("p1", ports[1], OTHER_CLASS))
    STOP.touch()
    report = {"before": before, "after": after, "runs": [run.end() for run in runs]}
    STOP.unlink()
    agent.close()
    return report


def gated(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """Posts wait for a PCIe semaphore and for F."""
    path = Path("/dev/shm/hostcc-pcie")
    report = {}
    with Semaphores.create([("gpu", Settings())], path) as region:
        agent = Agent(level=1, gates=(("", 0),))
        run = Run(write_bw(1000))
        pids: set[int] = set()

        def both_took_part() -> bool:
            pids.update(region.states()[0].pids)
            return len(pids) == 2 or run.ended()

        until(both_took_part, run.worked_s, "participants", WORK_S)
        report["semaphore"] = {**run.end(), "participants": len(pids)}
        agent.close()
        path.unlink()
    agent = Agent(pacing=Pacing(2e6, 1 << 30, (0.25,) * 33))
    run = Run(write_bw(160))
    paced: list[float] = []

    def was_paced() -> bool:
        paced.append(sum(one["paced_s"] for one in counted()))
        return paced[-1] > 0 or run.ended()

    until(was_paced, run.worked_s, "pacing", WORK_S)
    report["paced"] = {"paced_s": max(paced), **run.end()}
    agent.close()
    return report


def fuzzed(rounds: int) -> dict[str, Any]:
    """The plan's memory changes at random while programs run."""
    rng = random.Random(3)
    results = []
    for _ in range(rounds):
        agent = Agent(ports=(0xC200,), traffic_class=CLASS, level=1, gates=(("", 0),))
        raw = agent.region._mapped
        run = Run(write_bw(150, 4096))
        for _ in range(FUZZED_CHANGES):
            if run.ended():
                break
            at = rng.randrange(len(raw) - 8)
            if rng.random() < 0.5:
                at = rng.choice([0, 8, 12, 16, 24, 32, 36, *range(64, 260, 4)])
            raw[at : at + 4] = rng.choice([b"\xff" * 4, b"\0" * 4, rng.randbytes(4)])
            agent.region._header.generation += 1
            time.sleep(0.002)
        results.append(run.end()["status"])
        agent.close()
    return {"status": results}


def cost(runs: int) -> dict[str, Any]:
    """`hostcc bench shim` on the two devices."""
    args = argparse.Namespace(devices="rxa,rxb", gid_index=1, messages=1500, size=16384, depth=8)
    record = bench.run(args, Context(runs=runs, out=None))
    return {"rows": msgspec.to_builtins(record.rows)}


PARTS = {
    "quiet": quiet, "steered": steered, "late": late, "lengths": lengths, "moved": moved,
    "two_jobs": two_jobs, "gated": gated,
}  # fmt: skip
NUMBERED = {"fuzzed": fuzzed, "cost": cost}


def main() -> None:
    roce_fabric.build()
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    capture = Capture()
    ports = ports_of(capture)
    for line in sys.stdin:
        began = time.monotonic()
        name, _, number = line.strip().partition("=")
        found = NUMBERED[name](int(number)) if number else PARTS[name](capture, ports)
        report = {"ports": ports, name: found, "seconds": time.monotonic() - began}
        print("REPORT " + json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
