"""Lists the parts of this package, and what the agent asks of them."""

from __future__ import annotations

from collections.abc import Callable

from hostcc.daemon.gossip.profile_store import ProfileStore
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.rdma import path_source
from hostcc.daemon.rdma.congestion import Congestion
from hostcc.daemon.rdma.pcie_turns import Turns
from hostcc.daemon.rdma.plan_publisher import PlanPublisher
from hostcc.daemon.rdma.senders import SenderTracker
from hostcc.daemon.steering.rdma_flows import RdmaFlows
from hostcc.daemon.steering.telemetry_records import Records
from hostcc.daemon.supervisor import Host, Part
from hostcc.measure.discover.owners import Owners


class Rdma:
    """RDMA on this host.  `owners`: which job each process belongs to."""

    def __init__(
        self,
        host: Host,
        owners: Callable[[], Owners],
        profiles: ProfileStore,
        plans: PlanStore,
        records: Records,
    ) -> None:
        """`records`: of telemetry, where paths are found by that."""
        self.tracker = SenderTracker(host, owners)
        self.publisher = PlanPublisher(
            host,
            self.tracker,
            profiles,
            plans,
            lambda config: path_source.ask(config, records),
            check=path_source.check,
        )
        self.turns = Turns(host, self.tracker)
        self.congestion = Congestion(host, self.tracker)

    @property
    def parts(self) -> list[Part]:
        """In the order in which they begin."""
        return [self.publisher, self.turns, self.congestion]

    def shared(self) -> RdmaFlows:
        """Return flows of queue pairs and their paths, for other hosts."""
        return self.publisher.shared

    def joined(self) -> dict[str, str]:
        """Return what the environment of a job that starts now needs, beside the libraries."""
        return self.publisher.joined()
