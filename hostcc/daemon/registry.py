"""Lists the parts of the agent and what they answer: a new part is added here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hostcc.answers import flows, jobs
from hostcc.answers.host import Shifting
from hostcc.daemon.api import answers
from hostcc.daemon.api.credentials import Peer
from hostcc.daemon.api.messages import (
    Borrow,
    Flows,
    History,
    Jobs,
    Links,
    Peers,
    Plan,
    Profile,
    Shifts,
    View,
)
from hostcc.daemon.borrowed_mode import BorrowedMode
from hostcc.daemon.gates.gates_task import Gates
from hostcc.daemon.gates.shim_gates import ShimGates
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.gossip_task import Gossip
from hostcc.daemon.gossip.profile_store import ProfileStore
from hostcc.daemon.jobs.iteration_times import IterationTimes
from hostcc.daemon.marking.level_marks import LevelMarks
from hostcc.daemon.marking.queues import LevelQueues
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.planning.planning_task import Planning
from hostcc.daemon.profiling.job_history import HistoryKeeper
from hostcc.daemon.profiling.measurement import Measurement
from hostcc.daemon.profiling.traffic import Traffic
from hostcc.daemon.rdma.rdma_parts import Rdma
from hostcc.daemon.steering import flow_rows
from hostcc.daemon.steering.steer_task import SteerTask
from hostcc.daemon.steering.steering_parts import SteeringParts
from hostcc.daemon.steering.survey_task import SurveyTask
from hostcc.daemon.steering.telemetry_records import Records
from hostcc.daemon.supervisor import Host, Supervisor
from hostcc.errors import NoJobError

Handlers = Mapping[type[Any], Callable[[Any, Peer], Any]]
"""Kind of request -> what answers it."""


class Registry:
    """Every part, what they share, and which of them answers to what.

    Parts know each other by what they share: the cluster as this host sees it (the gossip writes
    it), profiles (profiling and RDMA write them) and the plan in force.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        cluster = Cluster()
        self.measurement = Measurement(host, cluster, self._publish)
        self._profiles = profiles = ProfileStore(self.measurement, cluster)
        self._plans = plans = PlanStore(host, cluster)
        self.gossip = Gossip(host, cluster, profiles, self._act)
        self.planning = Planning(host, plans, last_turn=lambda: self.measurement.traffic.last_turn)
        self.iteration_times = IterationTimes()
        self.history = HistoryKeeper(host, self.measurement, self.iteration_times, plans)
        records = Records()
        self.rdma = Rdma(host, self.measurement.owners, profiles, plans, records)
        self.steering = SteeringParts(
            host, cluster, profiles, plans, self.rdma.shared, self._read, records
        )
        rdma, measured = self.rdma, self.measurement
        shim = ShimGates(lambda: rdma.publisher.region, rdma.tracker.processes)
        self.gates = Gates(host, cluster, plans, profiles, measured.links, shim, measured.by_rdma)
        self.borrowed = BorrowedMode(host, cluster, self.gates)
        self.parts = Supervisor(
            [
                *self.measurement.parts,
                *self.rdma.parts,
                self.gossip,
                self.planning,
                self.gates,
                self.borrowed,
                LevelQueues(host),
                LevelMarks(host, plans),
                *self.steering.parts,
                self.history,
            ]
        )

    @property
    def handlers(self) -> Handlers:
        """Requests that the agent itself does not answer."""
        return {
            Flows: lambda request, _: self._flows(request),
            History: lambda request, _: self.history.answer(
                request.job, request.limit, request.points, fine=request.fine
            ),
            Jobs: lambda request, _: self._jobs(request),
            Links: lambda request, _: self.planning.links(
                request.job, request.limit, every=request.every
            ),
            Peers: lambda *_: self.gossip.peers(),
            Plan: lambda request, _: self.planning.answer(request.explain),
            Borrow: self.borrowed.borrow,
            Shifts: lambda request, _: self._shifts(request),
            View: lambda *_: self.planning.exported(),
            Profile: lambda request, _: self.measurement.profile(request.job, request.series),
        }

    def _read(self) -> None:
        """Read what jobs have sent, without waiting for the next tick."""
        self.parts.wake(Traffic.name)

    def _publish(self) -> None:
        """Publish a job that has begun, and its flows, without waiting for the next ticks."""
        self._profiles.expire()
        self.parts.wake(Gossip.name, SurveyTask.name)

    def _act(self) -> None:
        """Act by a plan that is ready, without waiting for the next ticks."""
        self.parts.wake(Planning.name, LevelMarks.name, SteerTask.name)

    async def _flows(self, request: Flows) -> flows.Flows:
        if request.job is not None and request.job not in self.measurement.weights():
            raise NoJobError(f"no job {request.job} on this host")
        answer = await answers.flows(self._host, request)
        name, plan = self._plans.member, self._plans.plan("paths")
        by_label = self._host.config.paths.ipv6 == "label"
        marks, wire = flow_rows.marks(self._host), self.steering.wire

        def rows() -> list[flows.FlowRow]:
            return flow_rows.described(answer.flows, wire, name, plan, marks(), by_label=by_label)

        return msgspec.structs.replace(answer, flows=await asyncio.to_thread(rows))

    async def _shifts(self, request: Shifts) -> Shifting:
        before = not self.gates.disabled_reason()
        self.gates.toggled = request.enabled
        await self.parts.stop_disabled()
        self.parts.recheck()
        why = self.gates.disabled_reason() if request.enabled else ""
        return Shifting(enabled=request.enabled, before=before, reason=why or None)

    def _jobs(self, request: Jobs) -> jobs.Jobs | jobs.DetailedJobs:
        rows = answers.jobs(self._host)
        if request.detail:
            return jobs.DetailedJobs(jobs=self.measurement.details(rows))
        return jobs.Jobs(jobs=self.measurement.rows(rows))
