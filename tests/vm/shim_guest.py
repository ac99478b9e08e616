"""In the guest: programs that know nothing of hostcc, with the transport shim preloaded.

`python -m tests.vm.shim_guest PART ...` prints one JSON object: what was on the wire, what
the programs returned, what the shim counted.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from hostcc.bench import shim as bench
from hostcc.bench.context import Context
from hostcc.pcie.semaphore import Semaphores, Settings
from hostcc.verbs.build import SHIM
from hostcc.verbs.counts import read_counts
from hostcc.verbs.plan import Pacing, PlanRegion, RdmaJob
from tests.vm import roce_fabric
from tests.vm.allreduce import STOP
from tests.vm.roce_fabric import ADDRESS, Capture

PLAN, COUNTS = Path("/dev/shm/hostcc-rdma"), Path("/dev/shm/hostcc-qp")
CLASS, OTHER_CLASS = 0x68, 0x28
LIMIT_S = 90
Sides = tuple[list[str], list[str]]


class Agent:
    """What the agent would do: a plan, and a sign of life."""

    def __init__(self, **wishes: Any) -> None:
        self.region = PlanRegion.create(PLAN, jobs=4, stale_s=2.0)
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
        self._stop.set()
        self._thread.join()

    def close(self) -> None:
        self.die()
        self.region.close()

    def _live(self) -> None:
        while not self._stop.wait(0.1):
            self.region.beat()


def write_bw(count: int, size: int = 16384, *more: str, tool: str = "ib_write_bw") -> Sides:
    depth = [] if tool.endswith("lat") else ["-t", "8"]  # Soft-RoCE breaks at its 128
    words = [tool, "-x", "1", "-s", str(size), "-n", str(count), "-F", *depth, *more]
    return [*words, "-d", "rxb"], [*words, "-d", "rxa", "127.0.0.1"]


def pingpong() -> Sides:
    words = ["ibv_rc_pingpong", "-g", "1", "-n", "50"]
    return [*words, "-d", "rxb"], [*words, "-d", "rxa", "127.0.0.1"]


def allreduce(iterations: int, compute_s: float, port: int = 18600) -> Sides:
    words = [sys.executable, "-m", "tests.vm.allreduce"]
    more = [str(port), str(iterations), str(compute_s)]
    return [*words, "0", *more], [*words, "1", *more]


class Run:
    """A server and a client, both in the job."""

    def __init__(self, sides: Sides, shim: bool = True, **environment: str) -> None:
        env = dict(os.environ)
        if shim:
            env |= {"LD_PRELOAD": str(SHIM.target), "HOSTCC_JOB": "job", **environment}
        self.processes = []
        for words in sides:
            self.processes.append(
                subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            )
            time.sleep(1.5)

    def end(self) -> dict[str, Any]:
        """Exit statuses and what was printed."""
        outputs = []
        for process in self.processes:
            try:
                outputs.append(process.communicate(timeout=LIMIT_S)[0].decode(errors="replace"))
            except subprocess.TimeoutExpired:
                process.kill()
                outputs.append("timed out " + process.communicate()[0].decode(errors="replace"))
        return {
            "status": [process.returncode for process in self.processes],
            "output": [text[-1500:] for text in outputs],
        }


def wire(capture: Capture) -> list[list[Any]]:
    """[path, port, class, packets] of what the client's end sent, the most frequent first."""
    sent = [p for p in capture.take() if p.source == ADDRESS["rxa"]]
    found = Counter((p.path, p.port, p.traffic_class) for p in sent)
    return [[*key, count] for key, count in found.most_common(6)]


def running(capture: Capture) -> list[list[Any]]:
    """The wire once data flows."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        rows = wire(capture)
        if sum(row[3] for row in rows) > 50:
            return rows
    return []


def ports_of(capture: Capture) -> tuple[int, int]:
    """A source port for each path, by trying."""
    from hostcc.verbs.steer import Route
    from tests.vm.roce_pair import Connection, Device

    near, far = Device("rxa"), Device("rxb")
    found: dict[str, int] = {}
    for port in range(0xC200, 0xC240):
        connection = Connection(near, far, Route(port))
        capture.take(0)
        connection.write(64)
        connection.wait(1)
        rows = wire(capture)
        found.setdefault(rows[0][0], port)
        if len(found) == 2:
            return found["p0"], found["p1"]
    raise AssertionError("one path only")


def counted() -> list[Any]:
    return [msgspec.to_builtins(one) for one in read_counts(COUNTS)]


def quiet(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """No agent; then a stale one: as without the shim."""
    report = {}
    for name, sides in (("plain", write_bw(400)), ("deep", write_bw(400, 65536, "-t", "128"))):
        run = Run(sides, shim=False)
        report[name] = {**run.end(), "wire": wire(capture)}
    run = Run(write_bw(400))
    report["none"] = {**run.end(), "wire": wire(capture), "counts": counted()}
    agent = Agent(ports=(ports[0],), traffic_class=CLASS)
    agent.die()
    time.sleep(2.5)
    run = Run(write_bw(400))
    report["stale"] = {**run.end(), "wire": wire(capture), "counts": counted()}
    agent.region.close()
    return report


def steered(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """Path and class from the plan; then another path while data flows."""
    report = {}
    agent = Agent(ports=(ports[0],), traffic_class=CLASS)
    for name, sides in (("pingpong", pingpong()), ("write_bw", write_bw(400))):
        run = Run(sides)
        report[name] = {**run.end(), "wire": wire(capture)}
    for name, sides in (
        ("live", write_bw(6000)),
        ("old_post", write_bw(6000, 16384, "--use_old_post_send")),
    ):
        agent.say(ports=(ports[0],), traffic_class=CLASS)
        capture.take(0)
        run = Run(sides)
        before = running(capture)
        agent.say(ports=(ports[1],), traffic_class=CLASS)
        time.sleep(1.0)
        capture.take(0)
        time.sleep(1.0)
        after = wire(capture)
        counts = counted()
        report[name] = {**run.end(), "before": before, "after": after, "counts": counts}
    agent.close()
    return report


def late(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """Queue pairs connect, by both ways of posting, and only then there is an agent."""
    report = {}
    for name, more in (("extended", ()), ("old_post", ("--use_old_post_send",))):
        capture.take(0)
        run = Run(write_bw(6000, 16384, *more))
        before, unseen = running(capture), counted()
        agent = Agent(ports=(ports[1],), traffic_class=CLASS)
        time.sleep(2.0)
        capture.take(0)
        after, counts = running(capture), counted()
        report[name] = {
            **run.end(), "before": before, "unseen": unseen, "after": after, "counts": counts
        }  # fmt: skip
        agent.close()
    return report


def moved(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """A two-process all-reduce moved to and fro, then deserted by its agent."""
    agent = Agent(ports=(ports[0],), traffic_class=CLASS)
    capture.take(0)
    run = Run(allreduce(200, 0.02))
    seen = [running(capture)[:1]]
    for change in range(6):
        agent.say(ports=(ports[(change + 1) % 2],), traffic_class=CLASS)
        time.sleep(0.5)
        capture.take(0)
        seen.append(running(capture)[:1])
    counts = counted()
    agent.die()
    report = {**run.end(), "seen": seen, "counts": counts}
    agent.region.close()
    return report


def of_both(capture: Capture) -> list[list[Any]]:
    """The wire, from now on until both jobs were seen sending."""
    capture.take(0)
    rows: list[list[Any]] = []
    deadline = time.monotonic() + 100
    while {row[2] for row in rows} != {CLASS, OTHER_CLASS} and time.monotonic() < deadline:
        rows += wire(capture)
    return rows


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
        Run(allreduce(10_000, 0.05, 18600 + index), HOSTCC_JOB=name)
        for index, name in enumerate(("first", "second"))
    ]
    before = of_both(capture)
    plan(("first", CLASS, ports[0]), ("second", OTHER_CLASS, ports[1]))
    time.sleep(1.0)
    after = of_both(capture)
    STOP.touch()
    report = {"before": before, "after": after, "runs": [run.end() for run in runs]}
    agent.close()
    return report


def gated(ports: tuple[int, int]) -> dict[str, Any]:
    """Posts wait for a PCIe semaphore and for F."""
    path = Path("/dev/shm/hostcc-pcie")
    report = {}
    with Semaphores.create([("gpu", Settings())], path) as region:
        agent = Agent(level=1, gates=(("", 0),))
        run = Run(write_bw(1000))
        deadline = time.monotonic() + 30
        pids: set[int] = set()
        while len(pids) < 2 and time.monotonic() < deadline:
            pids |= set(region.states()[0].pids)
        report["semaphore"] = {**run.end(), "participants": len(pids)}
        agent.close()
        path.unlink()
    slow = Pacing(2e6, 1 << 30, (0.25,) * 33)
    agent = Agent(pacing=slow)
    began = time.monotonic()
    run = Run(write_bw(160))
    time.sleep(1)
    report["paced"] = {"counts": counted(), **run.end(), "seconds": time.monotonic() - began}
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
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            at = rng.randrange(len(raw) - 8)
            if rng.random() < 0.5:
                at = rng.choice([0, 8, 12, 16, 24, 32, 36, *range(64, 260, 4)])
            raw[at : at + 4] = rng.choice([b"\xff" * 4, b"\0" * 4, rng.randbytes(4)])
            agent.region._header.generation += 1
            time.sleep(0.002)
        ended = run.end()
        results.append(ended["status"])
        agent.close()
    return {"status": results}


def cost(runs: int) -> dict[str, Any]:
    """`hostcc bench shim` on the two devices."""
    args = argparse.Namespace(devices="rxa,rxb", gid_index=1, messages=1500, size=16384, depth=8)
    record = bench.run(args, Context(runs=runs, out=None))
    return {"rows": msgspec.to_builtins(record.rows)}


PARTS = {
    "quiet": quiet, "steered": steered, "late": late, "moved": moved, "two_jobs": two_jobs
}  # fmt: skip


def main() -> None:
    began = time.monotonic()
    roce_fabric.build()
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    capture = Capture()
    ports = ports_of(capture)
    report: dict[str, Any] = {"ports": ports}
    for part in sys.argv[1:]:
        name, _, number = part.partition("=")
        if name == "fuzzed":
            report[name] = fuzzed(int(number))
        elif name == "cost":
            report[name] = cost(int(number))
        elif name == "gated":
            report[name] = gated(ports)
        else:
            report[name] = PARTS[name](capture, ports)
    report["seconds"] = time.monotonic() - began
    print("REPORT " + json.dumps(report))


if __name__ == "__main__":
    main()
