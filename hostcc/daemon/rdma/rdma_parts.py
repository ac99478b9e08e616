"""All of this package as the agent's parts, wired to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.rdma.congestion import Congestion
from hostcc.daemon.rdma.pcie_turns import Turns
from hostcc.daemon.rdma.senders import SenderTracker
from hostcc.daemon.rdma.transport import Transport
from hostcc.daemon.steering.rdma_flows import RdmaFlows
from hostcc.daemon.supervisor import Host, Part
from hostcc.measure.discover.owners import Owners
from hostcc.model import JobProfile


class Rdma:
    """RDMA on this host.

    `owners`: whose each process is; `profiles`: what was measured of jobs; `made`: the plan that
    the hosts agree on, if one holds; `member`: what this host is called in it.
    """

    def __init__(
        self,
        host: Host,
        owners: Callable[[], Owners],
        profiles: Callable[[], Sequence[JobProfile]],
        made: Callable[[], PlanResult | None],
        member: Callable[[], str] = str,
    ) -> None:
        self.looking = SenderTracker(host, owners)
        self.transport = Transport(host, self.looking, profiles, made, member=member)
        self.turns = Turns(host, self.looking)
        self.congestion = Congestion(host, self.looking)

    @property
    def parts(self) -> list[Part]:
        """In the order in which they begin."""
        return [self.transport, self.turns, self.congestion]

    def shared(self) -> RdmaFlows:
        """What the other hosts are to know of queue pairs here."""
        return self.transport.shared

    def profiles(self) -> list[JobProfile]:
        """What they are told of jobs: measurements, and guesses of those that send by RDMA."""
        return self.transport.profiles()

    def joined(self) -> dict[str, str]:
        """What the environment of a job that starts now needs, beside the libraries."""
        return self.transport.joined()
