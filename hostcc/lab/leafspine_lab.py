"""A leaf-spine fabric that scenarios run on: jobs on named hosts, events, paths of flows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hostcc.lab import netns
from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_flows import FlowTable
from hostcc.lab.leafspine_plan import (
    FabricHost,
    LeafSpineSpec,
    leaf_name,
    prefix,
)
from hostcc.lab.leafspine_scenario import (
    LeafSpineFabric,
    PlacedBackgroundSpec,
    PlacedJobSpec,
)
from hostcc.lab.network import Network, settings_of
from hostcc.lab.scenario import BackgroundSpec, JobSpec
from hostcc.lab.segments import Segment
from hostcc.lab.topology import LabHost, Queueing

ELEPHANT_BYTES = 100_000.0
"""Per iteration: rates are a hundredth of a real network's, and so are bytes."""
SPOT_S = 2.0
"""`paths.spot_s` of agents, seconds: shorter than on a real network, as runs are."""
PIN_TABLE = 200
"""Routing table of the first spine; one for each."""
PIN_PRIORITY, CUT_PRIORITY = 50, 30
Pin = tuple[str, str, int]
"""Source host, destination host, destination port."""


def spec_of(fabric: LeafSpineFabric) -> LeafSpineSpec:
    """The fabric that a scenario asks for."""
    return LeafSpineSpec(
        **settings_of(fabric),
        leaves=fabric.leaves,
        spines=fabric.spines,
        hosts_per_leaf=fabric.hosts_per_leaf,
        host_mbit=fabric.host_mbit,
        queues=Queueing(fabric.queues),
        levels=fabric.levels,
        hash_seed=fabric.hash_seed,
        management=fabric.management,
    )


class LeafSpineLab(LeafSpine, Network):
    """The built network; a context manager that removes it whatever happens."""

    secured = True
    fixed_ports = True

    def __init__(self, fabric: LeafSpineFabric) -> None:
        super().__init__(spec_of(fabric))
        self._wire = fabric
        self._flows: FlowTable | None = None
        self._slow: set[tuple[str, int]] = set()
        self._cut: list[tuple[str, str]] = []
        self._pinned: list[tuple[str, str]] = []

    @property
    def wire(self) -> LeafSpineFabric:
        """What the scenario asked for."""
        return self._wire

    def close(self) -> None:
        """Remove everything; safe to call twice.  Signals wait until it is done."""
        if self._flows is not None:
            self._flows.close()
            self._flows = None
        super().close()

    def members(self, job: JobSpec) -> tuple[FabricHost, ...]:
        """Hosts of a job, by rank."""
        assert isinstance(job, PlacedJobSpec)
        return tuple(self.named(name) for name in job.on)

    def pair(
        self,
        number: int,  # noqa: ARG002 - it names its hosts
        background: BackgroundSpec,
    ) -> tuple[FabricHost, FabricHost]:
        """Sender and receiver of background traffic."""
        assert isinstance(background, PlacedBackgroundSpec)
        return self.named(background.on[0]), self.named(background.on[1])

    def job_hosts(self) -> tuple[FabricHost, ...]:
        """All hosts."""
        return self.hosts

    def named(self, name: str) -> FabricHost:
        """A host by its name."""
        return self.host(int(name[1:]))

    def segments(self) -> tuple[Segment, ...]:
        """Which paths each flow has taken since `forget`."""
        return self._flows.read() if self._flows is not None else ()

    def resets(self) -> int:
        """Resets of jobs' connections between leaves so far."""
        return self._flows.resets() if self._flows is not None else 0

    def forget(self) -> None:
        """Forget the paths of flows seen so far."""
        if self._flows is not None:
            self._flows.clear()

    def agent_settings(self) -> dict[str, Any]:
        """What links carry, and which flows are heavy at such a rate."""
        return {
            "paths": {
                "fabric_mbit_per_s": self.spec.rate_mbit,
                "elephant_bytes": ELEPHANT_BYTES,
                "spot_s": SPOT_S,
                "devices": ["eth0"],
            }
        }

    def gossip_address(self, host: LabHost) -> str:
        """On the network of the agents, where there is one."""
        assert isinstance(host, FabricHost)
        return host.management if self.spec.management else host.address

    def spine_down(self, spine: int) -> None:
        """A spine (from 1) dies, and every leaf knows at once."""
        self.dead.add(spine)
        self._reroute()
        super().spine_down(spine)

    def spine_up(self, spine: int) -> None:
        """It is back, with its routes."""
        super().spine_up(spine)
        self.dead.discard(spine)
        self._reroute()

    def set_rate(self, leaf: str, spine: int, rate_mbit: float) -> None:
        """Give both directions of a link another rate."""
        self._slow.add((leaf, spine))
        super().set_rate(leaf, spine, rate_mbit)

    def restore(self) -> None:
        """Undo what events did."""
        for spine in sorted(self.dead):
            self.spine_up(spine)
        for leaf, spine in self._slow:
            super().set_rate(leaf, spine, self.spec.rate_mbit)
        self._slow.clear()
        self.heal_gossip()

    def pin(self, spines: Mapping[Pin, int]) -> None:
        """Route flows by rule, each over its spine (from 1), in place of the pins before."""
        self._undo(self._pinned, "rule del")
        for (src, dst, port), spine in spines.items():
            one, other = self.named(src), self.named(dst)
            if one.leaf == other.leaf:
                continue
            rule = (
                f"from {one.address} to {other.address} ipproto tcp dport {port} "
                f"lookup {PIN_TABLE + spine} priority {PIN_PRIORITY}"
            )
            where = self.namespace(leaf_name(one.leaf))
            netns.batch("ip", [f"rule add {rule}"], where)
            self._pinned.append((where, rule))

    def cut_gossip(self, group: Iterable[str], port: int) -> None:
        """Let no message pass between a group of hosts and the others; all hosts: none at all.

        What was cut before stays so.
        """
        mine, fresh = set(group), []
        every = {host.name for host in self.hosts}
        for name in sorted(every):
            others = every - {name} if mine >= every else every - mine if name in mine else mine
            where = self.namespace(name)
            for other in sorted(others):
                to = self.gossip_address(self.named(other))
                for side in ("dport", "sport"):
                    rule = f"to {to} ipproto tcp {side} {port} priority {CUT_PRIORITY} blackhole"
                    if (where, rule) not in self._cut:
                        fresh.append((where, rule))
        self._cut += fresh
        for where, rules in _by_namespace(fresh).items():
            netns.batch("ip", [f"rule add {rule}" for rule in rules], where)

    def heal_gossip(self) -> None:
        """Undo `cut_gossip`."""
        self._undo(self._cut, "rule del")

    def _undo(self, made: list[tuple[str, str]], verb: str) -> None:
        for where, rules in _by_namespace(made).items():
            netns.batch("ip", [f"{verb} {rule}" for rule in rules], where)
        made.clear()

    def _build(self) -> None:
        super()._build()
        self._reroute()
        self._flows = FlowTable(self.spine_ports())

    def _reroute(self) -> None:
        """ECMP over the spines that live, and the tables of pinned flows."""
        for leaf in range(self.spec.leaves):
            lines = self._leaf_routes(leaf)
            for link in (link for link in self.links if link.leaf == leaf):
                table, hop = PIN_TABLE + link.spine + 1, link.address(of_spine=True)
                lines += [
                    f"route replace {prefix(other)} via {hop} dev {link.spine_name} table {table}"
                    if link.spine + 1 not in self.dead
                    else f"route flush table {table}"
                    for other in range(self.spec.leaves)
                    if other != leaf
                ]
            netns.batch("ip", lines, self.namespace(leaf_name(leaf)))


def _by_namespace(made: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for where, rule in made:
        found.setdefault(where, []).append(rule)
    return found
