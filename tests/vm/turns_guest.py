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
from tests.vm.patience import until, worked_s
from tests.vm.sender import COUNTS, PLAN, STOP, Sender, begun

JOBS = {"one": 0.3, "other": 0.4}
"""Seconds for which they pause.  Jobs of one period may begin together again and again, sooner
after each other than a gate closes, and then nobody waits."""
SEND_S = 0.6
"""Longer than they pause: a burst that fits into the other one's pause lets only its own job wait,
again and again."""
SILENCE_S = 0.2
"""Longer than between two messages, however slow the processor."""
EXCHANGE = Exchange(period_s=60.0, burst_s=20.0, link_s=20.0, confidence=1.0)
"""Of both, as the queue has it: no deadline passes before a burst is over."""
HOLDS, MORE_BYTES = 3, 1 << 19
"""Of each job; and that each sends when the agent has died."""
WORK_S = 600.0
FOLLOW_S = 0.5
"""Between two looks at how far it is."""


class Agent:
    """Gates of both jobs, and all that they said."""

    def __init__(
        self, region: PlanRegion, pids: dict[str, int], silence_s: float = SILENCE_S
    ) -> None:
        self._region, self._silence_s = region, silence_s
        files = {job: {pid: COUNTS.with_name(f"{COUNTS.name}.{pid}")} for job, pid in pids.items()}
        self.gates = ShimGates(lambda: region, lambda: files)
        self._keeper = GateKeeper(max_share=1.0)
        plans = {name: GatePlan(EXCHANGE, tuple(JOBS.keys() - {name})) for name in JOBS}
        self._keeper.follow(plans, JOBS)
        self.events: list[tuple[str, str, float]] = []
        """(Job, event, seconds)."""

    def go_on(self, armed: bool = True) -> None:
        """Follow what happens for FOLLOW_S; not `armed`: nobody has to wait."""
        end_s = time.monotonic() + FOLLOW_S
        while time.monotonic() < end_s:
            self._region.beat()
            self.gates.look()
            for job, event, at_s in self.gates.bursts(time.monotonic()):
                self.events.append((job, event.name, at_s))
                self._keeper.burst(job, event, at_s, at_s)
            if armed:
                self.arm()
            else:
                self.gates.arm({})
            time.sleep(POLL_S)

    def arm(self, closed_s: float = 0.0) -> None:
        """As the queue says, or for so long."""
        now_s = time.monotonic()
        until_s = {job: self._keeper.closed_until_s(job, now_s) for job in JOBS}
        gates = {job: Gate(max(0.0, at_s + closed_s), EXCHANGE, self._silence_s)
                 for job, at_s in until_s.items() if job in self.gates.jobs}  # fmt: skip
        self.gates.arm(gates)


def report() -> dict[str, Any]:
    """Events of both jobs, their holds before and after the agent has died, their exit status."""
    began = time.monotonic()
    region = PlanRegion.create(PLAN, jobs=4, stale_s=60.0)
    region.publish([RdmaJob(name) for name in JOBS])
    jobs = {name: Sender(name, pause_s, SEND_S) for name, pause_s in JOBS.items()}
    pids = begun(jobs.values())
    print("turns of", [job.messages for job in jobs.values()], "messages", flush=True)
    agent = Agent(region, dict(zip(jobs, pids, strict=True)))

    def waited() -> bool:
        agent.go_on()
        held = agent.gates.holds()
        return all(job in held and held[job].turns >= HOLDS for job in JOBS)

    until(waited, lambda: worked_s(pids), "holds", WORK_S)
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
    return {
        "events": agent.events,
        "turns": {job: held[job].turns for job in JOBS},
        "turns_after_death": {job: after[job].turns for job in JOBS},
        "status": [job.end() for job in jobs.values()],
        "seconds": time.monotonic() - began,
    }


def sent_by() -> dict[str, int]:
    """Job -> bytes."""
    return {one.job: sum(qp.bytes for qp in one.qps) for one in read_counts(COUNTS)}


if __name__ == "__main__":
    roce_fabric.build()
    print("REPORT " + json.dumps(report()), flush=True)
