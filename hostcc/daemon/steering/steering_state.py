"""State that surveying and steering share: large flows, paths, own addresses."""

from __future__ import annotations

from dataclasses import dataclass, field

from hostcc.daemon.steering.elephants import Connection, Elephant
from hostcc.daemon.steering.failed_links import all_links, failed_links
from hostcc.daemon.steering.nics import Nic
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.paths.packets import TCP, Target
from hostcc.paths.steering_messages import FlowKey


@dataclass
class SteeringState:
    """Written by SurveyTask, read by SteerTask."""

    elephants: dict[FlowKey, Elephant] = field(default_factory=dict)
    connections: dict[FlowKey, Connection] = field(default_factory=dict)
    """All large connections, also those with unknown bytes per iteration."""
    known: dict[Target, TargetPaths] = field(default_factory=dict)
    nics: tuple[Nic, ...] = ()
    stalled: frozenset[FlowKey] = frozenset()
    """Flows with unacknowledged segments and no progress."""
    surveys: int = 0
    """Surveys of connections so far."""
    wire_ports: dict[FlowKey, int] = field(default_factory=dict)
    """Flow -> its source port on the wire, where it is not its own."""

    @property
    def addresses(self) -> frozenset[str]:
        """This host's own addresses."""
        return frozenset(address for nic in self.nics for address in nic.addresses)

    def paths_of(self, key: FlowKey) -> TargetPaths | None:
        """Return the known paths of a flow."""
        return self.known.get(target_of(key))

    def path_of(self, key: FlowKey) -> str:
        """Return the id of the path that a flow is on; empty: unknown."""
        known = self.paths_of(key)
        return known.path_of(self.wire_ports.get(key, key.sport)) if known is not None else ""

    def dead(self, now: float) -> frozenset[str]:
        """Return links that seem to have failed: missed lately, or of paths with stalled flows."""
        stalled = [(self.paths_of(key), self.path_of(key)) for key in self.stalled]
        return failed_links(self.known.values(), stalled, now)

    def links(self) -> frozenset[str]:
        """Return all links that are known, or were lately."""
        return all_links(self.known.values())


def target_of(key: FlowKey) -> Target:
    """Return the target to probe for a flow: switches hash the destination port, too."""
    return Target(key.src, key.dst, TCP, key.dport)
