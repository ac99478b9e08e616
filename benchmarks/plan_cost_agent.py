"""One agent's share of planning, in a process of its own: records in, views and plans out.

Everything between the arrival of a record and the written plan runs as in an agent: decoding, the
store, views every half second, agreement that never waits less than three timeouts because views
change all the time, and plans within the processor budget. Time is simulated; processor time is
measured. The cluster is in a process of its own, so that its memory does not count. Prints one JSON
object.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import msgspec

from benchmarks.plan_cost_world import World
from hostcc.config.sections.plan import PlanConfig
from hostcc.coord import view as views
from hostcc.coord.core.message import Record
from hostcc.coord.core.record_checker import RecordChecker
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store
from hostcc.coord.keys.no_keys import NoKeys
from hostcc.coord.view_index import ViewIndex
from hostcc.daemon.gossip.member_settings import AGREE_S, VIEW_S
from hostcc.daemon.planning.cpu_budget import CpuBudget
from hostcc.daemon.planning.planner import Planner

Result = TypeVar("Result")
AT_ONCE = 256
"""Records in one message at the start."""
ACTIVATION_S = 3 * AGREE_S
"""Seconds after which a view that changes all the time is followed (coord/agreement.py)."""


@dataclass(frozen=True)
class Case:
    """What is simulated."""

    hosts: int
    jobs: int
    placement: str
    events_per_s: float
    seconds: float
    seed: int


@dataclass(frozen=True)
class Cost:
    """What it took."""

    jobs: int
    """Jobs that there are at the end."""
    own_jobs: int
    """Jobs of the components that this host plans."""
    first_s: float
    """Processor time of the first view and plan."""
    views_share: float
    """Of one processor: records and views."""
    plans_share: float
    plans: int
    activations: int
    longest_s: float
    """Longest single step on the main thread, processor time."""
    resident_bytes: int
    """Of the whole process, the greatest."""


class Agent:
    """The parts of an agent that make its plans."""

    def __init__(self, member: str, hosts: int) -> None:
        self.member = member
        self.store, self.checker = Store(Settings(members=hosts + 1)), RecordChecker(NoKeys())
        self.index, self.planner = ViewIndex(), Planner(PlanConfig())
        self.views_s = self.plans_s = self.longest_s = 0.0
        self.budget = CpuBudget()
        self.plans = self.own_jobs = self.read = 0

    def receive(self, records: Iterable[Record]) -> None:
        """Put records into the store."""

        def put() -> None:
            for record in records:
                self.store.put(self.checker.check(record), 0.0)

        self.views_s += self._timed(put)[1]

    def look(self) -> None:
        """Bring the view up to date."""

        if self.store.revision == self.read:
            return
        self.read = self.store.revision

        def update() -> None:
            self.snapshot = views.build(self.store, (), "bench", self.index)
            views.neighbours(self.snapshot, self.member, Settings().neighbours)

        self.views_s += self._timed(update)[1]

    def activate(self, now: float) -> None:
        """Plan the view, if there is processor time for it."""
        self.budget = self.budget.now(now)
        if not self.budget.free:
            return
        view, cost = self._timed(lambda: self.snapshot.view_for(self.member))
        self.views_s += cost
        begun = time.process_time()
        self.planner(view)
        cost = time.process_time() - begun
        self.plans_s += cost
        self.budget = self.budget.spent(cost)
        self.plans, self.own_jobs = self.plans + 1, len(view.jobs)

    def _timed(self, work: Callable[[], Result]) -> tuple[Result, float]:
        begun = time.process_time()
        found = work()
        cost = time.process_time() - begun
        self.longest_s = max(self.longest_s, cost)
        return found, cost


class Cluster:
    """All other agents, in a process of their own."""

    def __init__(self, case: Case) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(
            target=_play, args=(case, theirs, self._pipe), daemon=True
        )
        self._process.start()
        theirs.close()
        self._decode = msgspec.msgpack.Decoder(tuple[Record, ...]).decode

    def next(self) -> tuple[Record, ...]:
        """Return some records of the start; none: that was all. Then those of the next event."""
        self._pipe.send_bytes(b"next")
        return self._decode(self._pipe.recv_bytes())

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join()


def _play(case: Case, pipe: Connection, agents: Connection) -> None:
    """Answer each request with records, until the other end is closed."""
    agents.close()
    world = World(case.hosts, case.jobs, case.placement, case.seed)

    def batches() -> Iterator[tuple[Record, ...]]:
        start = world.start()
        while some := tuple(islice(start, AT_ONCE)):
            yield some
        yield ()
        yield from (tuple(world.event(number)) for number in count())

    with suppress(EOFError):
        for batch in batches():
            pipe.recv_bytes()
            pipe.send_bytes(msgspec.msgpack.encode(batch))


def run(case: Case) -> Cost:
    """Play a case."""
    with closing(Cluster(case)) as cluster:
        return _run(case, cluster)


def _run(case: Case, cluster: Cluster) -> Cost:
    agent = Agent("host00000", case.hosts)
    while some := cluster.next():
        agent.receive(some)
    begun = time.process_time()
    agent.look()
    agent.activate(0.0)
    first = time.process_time() - begun
    # What the first views take is saved up; measured is the long run.
    agent.views_s = agent.plans_s = agent.longest_s = 0.0
    agent.budget, agent.plans = CpuBudget(0.0), 0
    ticks = round(case.seconds / VIEW_S)
    due, activations, events = ACTIVATION_S, 0, 0
    for tick in range(1, ticks + 1):
        now = tick * VIEW_S
        while events < int(now * case.events_per_s):
            agent.receive(cluster.next())
            events += 1
        agent.look()
        if now >= due:
            due, activations = now + ACTIVATION_S, activations + 1
            agent.activate(now)
    return Cost(
        jobs=len(agent.index.jobs),
        own_jobs=agent.own_jobs,
        first_s=first,
        views_share=agent.views_s / case.seconds,
        plans_share=agent.plans_s / case.seconds,
        plans=agent.plans,
        activations=activations,
        longest_s=agent.longest_s,
        resident_bytes=most_resident(os.getpid()),
    )


def most_resident(pid: int) -> int:
    """Return the most resident memory that a process has had, bytes. Raises OSError."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {pid} has ended")


if __name__ == "__main__":
    print(json.dumps(asdict(run(Case(**json.loads(sys.argv[1]))))))
