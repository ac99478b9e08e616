"""In the guest: two jobs on one port that send for most of the time, and so wait for each other.

`python -m tests.vm.turns_guest` prints a REPORT of their events.  The test does what the agent
does, by the same gates and the same queue.  It is never late: on an emulated processor an agent is,
and would hold nobody.
"""

from __future__ import annotations

import json
import time
from typing import Any

from hostcc.daemon.gates.gate_keeper import GateKeeper
from hostcc.daemon.gates.job_gates import Gate
from hostcc.daemon.gates.shim_gates import POLL_S, ShimGates
from hostcc.schedule.gates.groups import Exchange, GatePlan
from hostcc.verbs.plan_region import PlanRegion, RdmaJob
from hostcc.verbs.process_counts import read_counts
from tests.vm import roce_fabric
from tests.vm.bins_guest import COUNTS, PLAN, STOP, started
from tests.vm.patience import until, worked_s

JOBS = ("one", "other")
PAUSE_S, SEND_S = 0.4, 0.6
SILENCE_S = 0.2
"""Longer than between two messages, however slow the processor."""
EXCHANGE = Exchange(period_s=60.0, burst_s=20.0, link_s=20.0, confidence=1.0)
"""Of both, as the queue has it: no deadline passes before a burst is over."""
HOLDS, MORE_BYTES = 3, 1 << 19
"""Of each job; and that each sends when the agent has died."""
WORK_S = 600.0


class Agent:
    """Gates of both jobs, and all that they said."""

    def __init__(self, region: PlanRegion, pids: dict[str, list[int]]) -> None:
        self._region = region
        self.gates = ShimGates(lambda: region, lambda: pids, lambda: COUNTS)
        self._keeper = GateKeeper(max_share=1.0)
        plans = {name: GatePlan(EXCHANGE, tuple({*JOBS} - {name})) for name in JOBS}
        self._keeper.follow(plans, JOBS)
        self.events: list[tuple[str, str, float]] = []
        """(Job, event, seconds)."""

    def go_on(self) -> bool:
        """Follow what has happened; returns whether each job has waited often enough."""
        end_s = time.monotonic() + 0.1
        while time.monotonic() < end_s:
            self._region.beat()
            self.gates.look()
            for job, event, at_s in self.gates.bursts(time.monotonic()):
                self.events.append((job, event.name, at_s))
                self._keeper.burst(job, event, at_s, at_s)
            self.arm()
            time.sleep(POLL_S)
        held = self.gates.holds()
        return all(held[job].turns >= HOLDS for job in JOBS if job in held) and len(held) == 2

    def arm(self, closed_s: float = 0.0) -> None:
        """As the queue says, or for so long."""
        now_s = time.monotonic()
        until_s = {job: self._keeper.closed_until_s(job, now_s) for job in JOBS}
        gates = {job: Gate(max(0.0, at_s + closed_s), EXCHANGE, SILENCE_S)
                 for job, at_s in until_s.items() if job in self.gates.jobs}  # fmt: skip
        self.gates.arm(gates)


def report() -> dict[str, Any]:
    """Events of both jobs, their holds before and after the agent has died, their exit status."""
    began = time.monotonic()
    region = PlanRegion.create(PLAN, jobs=4, stale_s=60.0)
    region.publish([RdmaJob(name) for name in JOBS])
    jobs = {}
    for name in JOBS:  # each tries alone how many messages it sends in that time
        print(f"starting {name}", flush=True)  # the host waits for words
        jobs[name] = started(name, PAUSE_S, SEND_S)
        output = jobs[name].stdout
        assert output is not None
        output.readline()
    print("turns", flush=True)
    pids = [job.pid for job in jobs.values()]
    agent = Agent(region, {name: [job.pid] for name, job in jobs.items()})
    until(agent.go_on, lambda: worked_s(pids), "holds", WORK_S)
    agent.arm(closed_s=600.0)
    region._header.stale_us = 1
    sent, held = sent_by(), agent.gates.holds()
    until(
        lambda: all(now - sent[job] > MORE_BYTES for job, now in sent_by().items()),
        lambda: worked_s(pids),
        "bytes without an agent",
        WORK_S,
    )
    after = agent.gates.holds()
    print("ending", flush=True)
    STOP.touch()
    for job in jobs.values():
        job.communicate(timeout=300)
    return {
        "events": agent.events,
        "turns": {job: held[job].turns for job in JOBS},
        "turns_after_death": {job: after[job].turns for job in JOBS},
        "status": [job.returncode for job in jobs.values()],
        "seconds": time.monotonic() - began,
    }


def sent_by() -> dict[str, int]:
    """Job -> bytes."""
    return {one.job: sum(qp.bytes for qp in one.qps) for one in read_counts(COUNTS)}


if __name__ == "__main__":
    roce_fabric.build()
    print("REPORT " + json.dumps(report()), flush=True)
