"""The agent's parts that find and choose paths, and what they show."""

from __future__ import annotations

import time
from collections.abc import Callable

from hostcc.answers.status import Destination, LargeFlow, Routing
from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.profile_store import ProfileStore
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.steering.elephants import flow_id
from hostcc.daemon.steering.kernel_hooks import planned as planned_changes
from hostcc.daemon.steering.nics import nics
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.daemon.steering.path_source import explorer
from hostcc.daemon.steering.rdma_flows import RdmaFlows
from hostcc.daemon.steering.steer_task import SteerTask
from hostcc.daemon.steering.steering_state import SteeringState
from hostcc.daemon.steering.survey_task import SurveyTask
from hostcc.daemon.steering.telemetry_records import Records, TelemetryListener
from hostcc.daemon.supervisor import Host, Part
from hostcc.model import Change
from hostcc.paths.steering_messages import FlowKey

MAX_SHOWN = 1000
"""Flows, and targets, in status."""


class SteeringParts:
    """The parts of steering, connected to each other."""

    def __init__(
        self,
        host: Host,
        cluster: Cluster,
        profiles: ProfileStore,
        plans: PlanStore,
        more: Callable[[], RdmaFlows] = RdmaFlows,
        begun: Callable[[], None] = lambda: None,
        records: Records | None = None,
    ) -> None:
        """`more`: flows of queue pairs; `begun`: see SurveyTask; `records`: of telemetry, which
        others read, too."""
        self.picture = SteeringState()
        records = records if records is not None else Records()
        self.listening = TelemetryListener(host, records)
        self.finding = SurveyTask(
            host, cluster, self.picture, profiles, self.shown,
            lambda config: explorer(config, records), more, begun,
        )  # fmt: skip
        self.steer = SteerTask(host, cluster, self.finding, self.picture, plans, profiles)

    @property
    def parts(self) -> list[Part]:
        """Return the parts in the order in which they start."""
        return [self.listening, self.finding, self.steer]

    def shown(self) -> Routing:
        """Return paths by destination and flows, for status."""
        now, picture = time.monotonic(), self.picture
        steps = self.steer.states()
        return Routing(
            destinations=tuple(
                _destination(one, now) for one in [*picture.known.values()][:MAX_SHOWN]
            ),
            flows=tuple(
                LargeFlow(
                    id=flow_id(key),
                    job=one.connection.job,
                    local=_end(key.src, key.sport),
                    remote=_end(key.dst, key.dport),
                    host=one.host,
                    bytes_per_iteration=one.bytes,
                    path=picture.path_of(key) or None,
                    wire_port=picture.wire_ports.get(key, key.sport),
                    state=steps[key].state if key in steps else "ecmp",
                    reason=(steps[key].why if key in steps else self.steer.disabled_reason())
                    or None,
                )
                for key, one in sorted(picture.elephants.items())[:MAX_SHOWN]
            ),
        )

    def wire(self, key: FlowKey) -> tuple[str, int]:
        """Return (path, source port on the wire) of a connection; ("", its own) if unknown."""
        return self.picture.path_of(key), self.picture.wire_ports.get(key, key.sport)


def planned(config: PathsConfig) -> list[Change]:
    """List the changes that the agent makes at its start.  Raises HostccError."""
    if not (config.enabled and config.steer):
        return []
    return planned_changes(config, [nic.name for nic in nics(config.devices)])


def _destination(known: TargetPaths, now: float) -> Destination:
    paths = known.table.paths if known.table is not None else ()
    return Destination(
        src=known.target.src,
        dst=known.target.dst,
        dst_port=known.target.dst_port,
        paths=len(paths),
        ports=sum(len(path.ports) for path in paths),
        confidence=known.confidence,
        age_s=None if known.at is None else now - known.at,
        reason=known.why or None,
    )


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
