"""In the guest: two jobs on one port with the shim, and their bins as the agent reads them.

`python -m tests.vm.bins_guest` prints a REPORT: of each job what it did, by itself, and the bins.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import zlib
from typing import Any

from hostcc.daemon.profiling.queue_pair_meter import QueuePairMeter
from hostcc.measure.discover.owners import Owners
from hostcc.measure.rdma_counters import read_ports
from hostcc.verbs.plan_region import PlanRegion, RdmaJob
from tests.vm import roce_fabric
from tests.vm.patience import until, worked_s
from tests.vm.sender import COUNTS, MESSAGE_BYTES, PLAN, STOP, Sender, begun

JOBS = {"fast": (0.025, 0.025), "slow": (1.5, 0.5)}
"""Seconds in which they compute alone, and about so long they send."""
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


def main() -> None:
    roce_fabric.build()
    region = PlanRegion.create(PLAN, jobs=4, stale_s=60.0)
    region.publish([RdmaJob(name) for name in JOBS])
    jobs = {name: Sender(name, *times) for name, times in JOBS.items()}
    pids = begun(jobs.values())
    meter = Recorder(lambda: Job(dict(zip(pids, jobs, strict=True))))
    meter.start()
    last_s = time.monotonic() + ITERATIONS * sum(JOBS["slow"])

    def recorded() -> bool:
        region.beat()
        asyncio.run(meter.tick(COUNTS, time.monotonic_ns()))
        return time.monotonic() > last_s

    until(recorded, lambda: worked_s(pids), "iterations", WORK_S)
    print("ending", flush=True)  # the host waits for words
    STOP.touch()
    report: dict[str, Any] = {"rates": {f"{p.device}/{p.port}": p.rate_bps for p in read_ports()}}
    for name, job in jobs.items():
        sent = job.messages * MESSAGE_BYTES
        report[name] = {"seen": job.seen(), "bytes": sent, **meter.recorded(name)}
        assert job.end() == 0
    region.close()
    STOP.unlink()
    print("REPORT " + json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
