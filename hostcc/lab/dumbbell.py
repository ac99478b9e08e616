"""A dumbbell: hosts on two switches, and one link between the switches: the bottleneck.

    h1 --.                       .-- h2
    h3 ---- left ==mid== right ----- h4
    h5 --'   HTB + FIFO each way '-- h6

A switch's port to host hN is called hN.  IPv4 in 198.18.0.0/15 (the benchmarking range) and
IPv6 in fd00:4843::/32.
"""

from __future__ import annotations

from hostcc.lab.network import Network, settings_of
from hostcc.lab.scenario import BackgroundSpec, FabricSpec, JobSpec
from hostcc.lab.scenario_hosts import LEFT, RIGHT, Host
from hostcc.lab.topology import FabricSettings, Port, Topology

MID = "mid"
MIDDLE = (
    Port(LEFT, MID, "198.19.255.1", "fd00:4843:ffff::1", queue="right"),
    Port(RIGHT, MID, "198.19.255.2", "fd00:4843:ffff::2", queue="left"),
)


def topology_of(spec: FabricSettings, hosts: tuple[Host, ...]) -> Topology:
    """Both switches with their hosts.

    All of the delay is on the way to the left: data of jobs, which goes to the right, passes
    the bottleneck untouched and only acknowledgements wait.
    """
    return Topology((LEFT, RIGHT), (MIDDLE,), hosts, {LEFT: spec.delay_us})


class Dumbbell(Network):
    """The built network; a context manager that removes it whatever happens."""

    hosts: tuple[Host, ...]

    def __init__(self, fabric: FabricSpec, hosts: tuple[Host, ...]) -> None:
        spec = FabricSettings(**settings_of(fabric))
        super().__init__(spec, topology_of(spec, hosts))
        self._wire = fabric

    @property
    def wire(self) -> FabricSpec:
        """The bottleneck."""
        return self._wire

    def routes(self, switch: str) -> list[str]:
        """All that is not here is behind the other switch."""
        (peer,) = (port for port in MIDDLE if port.switch != switch)
        return [f"route add default via {peer.address}", f"route add default via {peer.address6}"]

    def members(self, job: JobSpec) -> tuple[Host, ...]:
        """Hosts of a job, by rank."""
        return tuple(host for host in self.job_hosts() if host.owner == job.name)

    def pair(self, number: int, background: BackgroundSpec) -> tuple[Host, Host]:
        """Background traffic has hosts of its own."""
        owner = f"{background.name}.{number}"
        left, right = (host for host in self.hosts if host.background and host.owner == owner)
        return left, right

    def job_hosts(self) -> tuple[Host, ...]:
        """All hosts but those of background traffic, which keep their congestion control."""
        return tuple(host for host in self.hosts if not host.background)
