"""A host with gates on a kernel in memory, and a cluster that only remembers what it is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path as FolderPath
from typing import Any

import numpy as np

from hostcc.config.schema import Config
from hostcc.config.sections.job import JobRequest
from hostcc.daemon.gates.gate_notes import TOPIC, GateNote, decode, encode
from hostcc.daemon.gates.gates_task import Gates
from hostcc.daemon.gates.job_gates import BurstEvent
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.model import ClusterView, Flow, Path, PathTable
from hostcc.schedule.plan import Options, solve
from hostcc.schedule.plan_writer import write_plan
from tests.daemon.gates.shims import Shims
from tests.daemon.planning.made import ToyPlans
from tests.daemon.profiling.hosts import OWN, ToyHost
from tests.fakes import EVENT
from tests.schedule.views import job

BURST_S = 0.3
SENT = 2_200_000.0
BEGIN, HELD, OPENED, END = BurstEvent


def rings(**ends: tuple[str, str]) -> PlanResult:
    """The plan of jobs that send over one link, each between two hosts in both directions."""
    profiles = [job(name, compute=0.6, period_s=1.2) for name in ends]
    flows = tuple(
        Flow(f"{name}{src}", name, src, dst, BURST_S)
        for name, (one, other) in ends.items()
        for src, dst in ((one, other), (other, one))
    )
    pairs = sorted({(flow.src, flow.dst) for flow in flows})
    left = {one for one, _ in ends.values()}
    tables = tuple(
        PathTable(src, dst, (Path("p", ("right" if src in left else "left",)),))
        for src, dst in pairs
    )
    view = ClusterView(tuple(profiles), flows, tables, (("right", 1.0), ("left", 1.0)), digest="d")
    found = solve(view, Options(simulations=0))
    return PlanResult(write_plan("d", found), found)


class Notes:
    """The cluster: what was sent, and who listens."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: list[tuple[str, GateNote]] = []
        self.hear: Any = None

    def listen(self, topic: str, hear: Any) -> None:
        assert topic == TOPIC
        self.hear = hear

    def send(self, peer: str, topic: str, data: bytes) -> bool:
        assert topic == TOPIC
        self.sent.append((peer, decode(data)))
        return True

    def flush(self) -> None:
        pass


class Profiles:
    """What was measured."""

    def __init__(self) -> None:
        self.sure: dict[str, float] = {}
        self.lone_rates: Mapping[str, float] = {}

    def steady(self) -> list[Any]:
        usual = job("", compute=0.132, period_s=0.22, comm_s=0.088)
        usual = replace(usual, bytes_to=(("h3", SENT),))
        return [replace(usual, job=name, confidence=one) for name, one in self.sure.items()]


class World:
    """Host h1 with job a, and b beside it where `local`."""

    def __init__(self, folder: FolderPath, *names: str, member: str = "h1") -> None:
        self.host = ToyHost(folder, Config(agent=OWN))
        self.table = self.host.act()
        self.backend = self.host.engine.backend
        for name in names:
            self.table.register(name, JobRequest(), os.getpid())
        self.now = 10.0
        self.cluster, self.profiles = Notes(member), Profiles()
        self.plans = ToyPlans(rings(a=("h1", "h3"), b=("h2", "h4")), member)
        self.links: dict[str, Mapping[str, float | None]] = {}
        self.shims = Shims(folder)
        cluster: Any = self.cluster
        profiles: Any = self.profiles
        self.part = Gates(
            self.host, cluster, self.plans, profiles,
            lambda name: self.links.get(name, {}), self.shims.gates(),
            lambda name: name in self.shims.jobs, lambda: self.now,
        )  # fmt: skip
        self.part.start()

    def tick(self) -> None:
        asyncio.run(self.part.tick())

    def slot(self, name: str) -> int:
        return self.table.jobs[name].slot

    def burst(self, name: str, event: BurstEvent) -> None:
        records = np.zeros(1, EVENT)
        records["slot"], records["kind"] = self.slot(name), event
        records["at_ns"] = int(self.now * 1e9)
        self.part.burst(records)

    def closed_s(self, name: str) -> float:
        """For how long the gate in the kernel is closed from now on; 0: it is open."""
        armed, until_ns = self.backend.gates[self.slot(name)]
        assert armed
        return float(max(0.0, until_ns / 1e9 - self.now))

    def heard(self, peer: str, note: GateNote) -> None:
        self.cluster.hear(peer, encode(note))


def known(world: World, name: str) -> None:
    """The job has sent for a while."""
    state = world.backend.states[world.slot(name)]
    state["iterations"], state["trust"] = 30, 8
    state["total_bytes"], state["ns_per_mib"] = 2_200_000, 41_943_040
    state["best_comm_ns"], state["usual_gap_ns"] = 88_000_000, 132_000_000
    world.links[name] = {"eth0": None}
    world.profiles.sure[name] = 0.9
