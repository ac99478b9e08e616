"""What turns gain two RDMA jobs on one port: `python -m tests.vm.turns_gain [ROUNDS]`.

Prints for each round the mean iteration time of both jobs with gates and without, as multiples of
the time alone, and at the end means over all rounds.  In a virtual machine with Soft-RoCE, whose
clock counts instructions.  Its one processor is also the network that the jobs share, and the
agent's, which counts as never late and may hold a job all the time.

Both jobs begin each round at once, and their computing varies.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from statistics import mean

from hostcc.system.cc import build
from hostcc.verbs.build import SHIM
from hostcc.verbs.plan_region import PlanRegion, RdmaJob
from tests.vm import machine, roce_fabric
from tests.vm.sender import PLAN, STOP, Sender
from tests.vm.turns_guest import JOBS, Agent

PAUSE_S, SEND_S, VARY = 0.36, 0.24, 0.12
"""Of an iteration: computing, give or take a part of it, and about how long it sends alone."""
SILENCE_S = 0.12
ROUND_S = 18.0
FIRST = 6
"""Iterations of a round that do not count: with gates nobody waits in the first of them."""
ROUNDS = 3


def iteration_s(senders: Sequence[Sender], go_on: Callable[[], None]) -> list[float]:
    """Mean iteration time of each of these jobs in a round, seconds."""
    for sender in senders:
        sender.go()
    end_s = time.monotonic() + ROUND_S
    while time.monotonic() < end_s:
        go_on()
        print(".", end="", flush=True)  # the host waits for words
    print(flush=True)
    STOP.touch()
    ends = [[sent for _, _, sent in sender.seen()] for sender in senders]
    STOP.unlink()
    return [(of[-2] - of[FIRST]) / (len(of) - 2 - FIRST) for of in ends]  # the last is beside less


def measure(rounds: int) -> None:
    """In the guest."""
    roce_fabric.build()
    region = PlanRegion.create(PLAN, jobs=4, stale_s=60.0)
    region.publish([RdmaJob(name) for name in JOBS])
    senders = [Sender(name, PAUSE_S, SEND_S, VARY) for name in JOBS]
    pids = {name: one.process.pid for name, one in zip(JOBS, senders, strict=True)}
    agent = Agent(region, pids, SILENCE_S)
    alone = [iteration_s([one], lambda: agent.go_on(armed=False))[0] for one in senders]
    print(f"alone: {_listed(alone)} s", flush=True)
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds):
        for armed, found in ratios.items():
            before = agent.gates.holds()
            times = iteration_s(senders, lambda on=armed: agent.go_on(armed=on))  # type: ignore[misc]
            over = [one / its for one, its in zip(times, alone, strict=True)]
            found.append(mean(over))
            held = {job: one.turns - before[job].turns for job, one in agent.gates.holds().items()}
            print(
                f"{'with' if armed else 'without'} gates: {_listed(over)}, held {held}", flush=True
            )
    with_gates, without = mean(ratios[True]), mean(ratios[False])
    print(f"iteration time over alone: {with_gates:.3f} with gates, {without:.3f} without,"
          f" ratio {with_gates / without:.3f}", flush=True)  # fmt: skip
    for one in senders:
        one.end()
    region.close()


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def main(rounds: int) -> None:
    """On the host."""
    build(SHIM)
    words = [sys.executable, "-m", "tests.vm.turns_gain", "guest", str(rounds)]
    outcome = machine.run(words)
    print(outcome.output if outcome.status == 0 else machine.described(outcome), end="")


if __name__ == "__main__":
    if sys.argv[1:2] == ["guest"]:
        measure(int(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
