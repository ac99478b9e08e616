"""In the guest: two jobs on one port with the shim, and their bins as the agent reads them.

`python -m tests.vm.bins_guest` prints a REPORT: of each job what it did, by itself, and the bins.
`python -m tests.vm.bins_guest PAUSE_S SEND_S` is one job: it computes, then sends for about so
long, and computes on through the first half of that, until STOP is there.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from hostcc.daemon.profiling.queue_pair_meter import QueuePairMeter
from hostcc.measure.discover.owners import Owners
from hostcc.measure.rdma_counters import read_ports
from hostcc.verbs.build import SHIM
from hostcc.verbs.plan_region import PlanRegion, RdmaJob
from tests.vm import roce_fabric
from tests.vm.patience import until, worked_s

PLAN, COUNTS = Path("/dev/shm/hostcc-rdma"), Path("/dev/shm/hostcc-qp")
STOP = Path("/run/bins.stop")
JOBS = {"fast": (0.025, 0.025), "slow": (1.5, 0.5)}
"""Seconds in which they compute alone, and about so long they send."""
MESSAGE_BYTES, TRIAL = 4096, 40
ITERATIONS = 12
"""Of the slower job."""
WORK_S = 600.0
"""More processor time than these need."""


class Job(Owners):
    """Which job a process is of, by its number."""

    def __init__(self, jobs: dict[int, str]) -> None:
        object.__setattr__(self, "jobs", jobs)

    def of(self, pid: int) -> str | None:
        jobs: dict[int, str] = self.__dict__["jobs"]
        return jobs.get(pid)


class Recorder(QueuePairMeter):
    """Keeps the bins; the host analyses them, because an emulated processor takes long."""

    def _start_analyses(self, now_ns: int) -> None:
        pass

    def recorded(self, job: str) -> dict[str, Any]:
        """All bins of a job, and where they went."""
        known = self._jobs[job]
        of = known.track.collect().whole()
        return {
            "start_ns": of.start_ns,
            "tx": base64.b64encode(zlib.compress(of.tx.astype("<i8").tobytes())).decode(),
            "to": [str(to) for to in known.track.to],
            "links": sorted({way.link for way in known.ways.values()}),
        }


def work(pause_s: float, send_s: float) -> None:
    """Be a job, and print [begin, computed until, sent until] of each iteration, seconds."""
    from hostcc.verbs.steer import Route
    from tests.vm.roce_pair import Connection, Device

    connection = Connection(Device("rxa"), Device("rxb"), Route(0xC200))

    def send(count: int) -> float:
        for _ in range(count):
            connection.write(MESSAGE_BYTES)
            connection.wait(1)
        return time.monotonic()

    before = time.monotonic()
    count = max(2, round(send_s / (send(TRIAL) - before) * TRIAL))
    print(count, flush=True)
    seen = []
    while not STOP.exists():
        time.sleep(pause_s)
        begin = time.monotonic()
        computed = send(count // 2)
        seen.append([begin, computed, send(count - count // 2)])
    print(json.dumps(seen))


def started(name: str, pause_s: float, send_s: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.vm.bins_guest", str(pause_s), str(send_s)]
    env = os.environ | {"LD_PRELOAD": str(SHIM.target), "HOSTCC_JOB": name}
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)


def main() -> None:
    roce_fabric.build()
    region = PlanRegion.create(PLAN, jobs=4, stale_s=60.0)
    region.publish([RdmaJob(name) for name in JOBS])
    jobs, counts = dict[str, subprocess.Popen[str]](), dict[str, int]()
    for name, times in JOBS.items():  # each tries alone how many messages it sends in that time
        jobs[name] = started(name, *times)
        output = jobs[name].stdout
        assert output is not None
        counts[name] = int(output.readline())
    meter = Recorder(lambda: Job({job.pid: name for name, job in jobs.items()}))
    meter.start()
    last_s = time.monotonic() + ITERATIONS * sum(JOBS["slow"])

    def recorded() -> bool:
        region.beat()
        asyncio.run(meter.tick(COUNTS, time.monotonic_ns()))
        return time.monotonic() > last_s

    pids = [job.pid for job in jobs.values()]
    until(recorded, lambda: worked_s(pids), "iterations", WORK_S)
    print("ending", flush=True)  # the host waits for words
    STOP.touch()
    report: dict[str, Any] = {"rates": {f"{p.device}/{p.port}": p.rate_bps for p in read_ports()}}
    for name, job in jobs.items():
        seen = json.loads(job.communicate(timeout=300)[0])
        sent = counts[name] * MESSAGE_BYTES
        report[name] = {"seen": seen, "bytes": sent, **meter.recorded(name)}
    region.close()
    STOP.unlink()
    print("REPORT " + json.dumps(report), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(*map(float, sys.argv[1:]))
    else:
        main()
