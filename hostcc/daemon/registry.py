"""The parts of the agent and what they answer, listed in one place: who adds one, adds it here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from hostcc.daemon.api import answers
from hostcc.daemon.api.credentials import Peer
from hostcc.daemon.api.messages import Flows, Jobs, Peers, Plan, Profile
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.gossip_task import Gossip
from hostcc.daemon.gossip.hysteresis import ProfileHysteresis
from hostcc.daemon.jobs import views
from hostcc.daemon.marking.level_marks import LevelMarks
from hostcc.daemon.marking.queues import LevelQueues
from hostcc.daemon.planning.planning_task import Planning
from hostcc.daemon.profiling.measurement import Measurement
from hostcc.daemon.rdma.rdma_parts import Rdma
from hostcc.daemon.steering import flow_rows
from hostcc.daemon.steering.steering_parts import SteeringParts
from hostcc.daemon.supervisor import Host, Part, Supervisor
from hostcc.errors import NoJobError
from hostcc.model import JobProfile

Handlers = Mapping[type[Any], Callable[[Any, Peer], Any]]
"""Kind of request -> what carries it out."""


class Registry:
    """Every part, and which of them answers to what."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._cluster = cluster = Cluster(lambda: self.gossip.member)
        self.measurement = measured = Measurement(host, cluster=cluster)
        steady = ProfileHysteresis(measured.profiles, cluster.job)
        self.gossip = Gossip(host, self._profiles, self._names)
        self.planning = Planning(host, self.gossip.standing)
        self.rdma = Rdma(
            host, measured.owners, steady.profiles, self.planning.made, lambda: cluster.name
        )
        made, beside = self.planning.made, self.rdma.shared
        self.routing = SteeringParts(host, cluster, steady.profiles, made, beside, measured.latest)
        acting: list[Part] = [
            self.planning,
            LevelQueues(host),
            LevelMarks(host, self.planning.made, lambda: cluster.name),
        ]
        self.parts = Supervisor(
            [*measured.parts, *self.rdma.parts, self.gossip, *acting, *self.routing.parts]
        )

    @property
    def handlers(self) -> Handlers:
        """Requests that the agent itself does not answer."""
        return {
            Flows: lambda request, _: self._flows(request),
            Jobs: lambda request, _: self._jobs(request),
            Peers: lambda *_: self.gossip.peers(),
            Plan: lambda request, _: self.planning.answer(request.explain),
            Profile: lambda request, _: self.measurement.profile(request.job, request.series),
        }

    def _profiles(self) -> list[JobProfile]:
        return self.rdma.profiles()

    def _names(self) -> set[str]:
        return {job.name for job in self.measurement.jobs()}

    async def _flows(self, request: Flows) -> dict[str, Any]:
        if request.job is not None and request.job not in self._names():
            raise NoJobError(f"no job {request.job} on this host")
        answer = await answers.flows(self._host, request)
        name, plan = self._cluster.name, self.planning.plan()
        by_label = self._host.config.paths.ipv6 == "label"
        marks, wire = flow_rows.marks(self._host), self.routing.wire

        def rows() -> list[dict[str, Any]]:
            return flow_rows.described(
                answer["flows"], wire, name, plan, marks(), by_label=by_label
            )

        return {**answer, "flows": await asyncio.to_thread(rows)}

    def _jobs(self, request: Jobs) -> dict[str, Any]:
        rows = answers.jobs(self._host)
        if request.detail:
            rows = self.measurement.details(rows)
        return {"schema": views.JOBS, "jobs": rows}
