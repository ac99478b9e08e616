"""What the routing parts know together: large flows, paths, own addresses."""

from __future__ import annotations

from dataclasses import dataclass, field

from hostcc.paths.exchange_types import FlowKey
from hostcc.paths.packets import TCP, Target
from hostcc.routing.elephants import Connection, Elephant
from hostcc.routing.looks import Known
from hostcc.routing.nics import Nic


@dataclass
class Picture:
    """Made by the finding part, read by the steering part."""

    elephants: dict[FlowKey, Elephant] = field(default_factory=dict)
    connections: dict[FlowKey, Connection] = field(default_factory=dict)
    """All large ones, also those of which the bytes per iteration are not known yet."""
    known: dict[Target, Known] = field(default_factory=dict)
    nics: tuple[Nic, ...] = ()
    surveys: int = 0
    """How often connections were looked at."""
    wire_ports: dict[FlowKey, int] = field(default_factory=dict)
    """Flows that have another source port on the wire than their own."""

    @property
    def addresses(self) -> frozenset[str]:
        """This host's own."""
        return frozenset(address for nic in self.nics for address in nic.addresses)

    def paths_of(self, key: FlowKey) -> Known | None:
        """What is known of the paths of a flow."""
        return self.known.get(target_of(key))

    def path_of(self, key: FlowKey) -> str:
        """Id of the path that a flow is on; empty: unknown."""
        known = self.paths_of(key)
        return known.path_of(self.wire_ports.get(key, key.sport)) if known is not None else ""


def target_of(key: FlowKey) -> Target:
    """What has to be probed for a flow: switches hash the destination port, too."""
    return Target(key.src, key.dst, TCP, key.dport)
