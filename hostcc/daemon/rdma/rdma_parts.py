"""All of this package as the agent's parts, wired to each other."""

from __future__ import annotations

from collections.abc import Callable

from hostcc.daemon.gossip.profile_store import ProfileStore
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.rdma.congestion import Congestion
from hostcc.daemon.rdma.pcie_turns import Turns
from hostcc.daemon.rdma.senders import SenderTracker
from hostcc.daemon.rdma.transport import Transport
from hostcc.daemon.steering.rdma_flows import RdmaFlows
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
    ) -> None:
        self.looking = SenderTracker(host, owners)
        self.transport = Transport(host, self.looking, profiles, plans)
        self.turns = Turns(host, self.looking)
        self.congestion = Congestion(host, self.looking)

    @property
    def parts(self) -> list[Part]:
        """In the order in which they begin."""
        return [self.transport, self.turns, self.congestion]

    def shared(self) -> RdmaFlows:
        """What the other hosts are to know of queue pairs here."""
        return self.transport.shared

    def joined(self) -> dict[str, str]:
        """What the environment of a job that starts now needs, beside the libraries."""
        return self.transport.joined()
