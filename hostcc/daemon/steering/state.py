"""What the routing parts know together: large flows, paths, own addresses."""

from __future__ import annotations

from dataclasses import dataclass, field

from hostcc.daemon.steering.elephants import Connection, Elephant
from hostcc.daemon.steering.nics import Nic
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.paths.exchange_types import FlowKey
from hostcc.paths.packets import TCP, Target

DEAD_S = 30.0
"""A link that was missed counts as failed for so long, if nobody sees it again."""


@dataclass
class SteeringState:
    """Made by the finding part, read by the steering part."""

    elephants: dict[FlowKey, Elephant] = field(default_factory=dict)
    connections: dict[FlowKey, Connection] = field(default_factory=dict)
    """All large ones, also those of which the bytes per iteration are not known yet."""
    known: dict[Target, TargetPaths] = field(default_factory=dict)
    nics: tuple[Nic, ...] = ()
    stalled: frozenset[FlowKey] = frozenset()
    """Flows that wait for acknowledgements in vain."""
    surveys: int = 0
    """How often connections were looked at."""
    wire_ports: dict[FlowKey, int] = field(default_factory=dict)
    """Flows that have another source port on the wire than their own."""

    @property
    def addresses(self) -> frozenset[str]:
        """This host's own."""
        return frozenset(address for nic in self.nics for address in nic.addresses)

    def paths_of(self, key: FlowKey) -> TargetPaths | None:
        """What is known of the paths of a flow."""
        return self.known.get(target_of(key))

    def path_of(self, key: FlowKey) -> str:
        """Id of the path that a flow is on; empty: unknown."""
        known = self.paths_of(key)
        return known.path_of(self.wire_ports.get(key, key.sport)) if known is not None else ""

    def dead(self, now: float) -> frozenset[str]:
        """Links that seem to have failed: lately missed, or of paths on which flows stand still."""
        found = {
            link
            for known in self.known.values()
            for link, at in known.gone.items()
            if now - at <= DEAD_S
        }
        for key in self.stalled:
            known, path = self.paths_of(key), self.path_of(key)
            if known is None or known.table is None or len(known.table.paths) < 2:
                continue
            ways = {one.id: frozenset(one.links) for one in known.table.paths}
            found |= ways.get(path, frozenset()) - frozenset.intersection(*ways.values())
        return frozenset(found)

    def links(self) -> frozenset[str]:
        """All links that are known, or were lately."""
        return frozenset(
            link for known in self.known.values() for link in (*known.links, *known.gone)
        )


def target_of(key: FlowKey) -> Target:
    """What has to be probed for a flow: switches hash the destination port, too."""
    return Target(key.src, key.dst, TCP, key.dport)
