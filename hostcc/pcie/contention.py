"""Finds the PCIe links that jobs contend for: measured rates laid over the tree.

A link is contended when several jobs move data over it at the same time and together take most of
what it carries.  Rates of GPUs come from NVML, those of NICs from their counters.  Pure but for
`gpu_rates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hostcc.errors import InputError
from hostcc.pcie.tree import Kind, Tree, Uses, bus_id, path

BUSY = 0.8
"""Share of a link's rate at which it counts as full: PCIe's packet headers take the rest."""
ACTIVE = 0.02
"""Share of a link's rate below which a job does not count as using it."""
_TX, _RX = 0, 1  # nvmlPcieUtilCounter_t
_KB = 1024
MAX_GPUS = 128


@dataclass(frozen=True)
class LinkLoad:
    """Load of one link at one moment."""

    link: str
    rate: float
    """Rate of the link, bytes per second and direction."""
    load: Mapping[str, float]
    """Job -> bytes per second, in the busier direction."""
    contended: bool

    @property
    def utilisation(self) -> float:
        """Share of the rate that all jobs take; measurements may sum to more than 1."""
        return sum(self.load.values()) / self.rate


def loads(
    tree: Tree, uses: Uses, gpu_rate: Mapping[str, float], nic_rate: Mapping[str, float]
) -> tuple[LinkLoad, ...]:
    """Compute the loads of all links with a known rate that jobs use, the fullest first.

    `gpu_rate`, `nic_rate`: device -> bytes per second in its busier direction.  The rate of a
    device with several paths is split evenly among them; a path carries what both of its ends
    can account for.
    """
    paths = [(job, pair) for job, pairs in uses.items() for pair in pairs]
    on: dict[str, int] = {}
    for _, pair in paths:
        for device in pair:
            on[device] = on.get(device, 0) + 1
    load: dict[str, dict[str, float]] = {}
    for job, (gpu, nic) in paths:
        known = [
            rates[device] / on[device]
            for device, rates in ((gpu, gpu_rate), (nic, nic_rate))
            if device in rates
        ]
        for link in path(tree, gpu, nic):
            jobs = load.setdefault(link, {})
            jobs[job] = jobs.get(job, 0.0) + min(known, default=0.0)
    found = [
        LinkLoad(link, rate, jobs, _contended(jobs, rate))
        for link, jobs in load.items()
        if (rate := tree.nodes[link].rate)
    ]
    return tuple(sorted(found, key=lambda one: (-one.utilisation, one.link)))


def _contended(jobs: Mapping[str, float], rate: float) -> bool:
    active = [used for used in jobs.values() if used >= ACTIVE * rate]
    return len(active) > 1 and sum(active) >= BUSY * rate


def gpus(ask: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """List (PCI address, handle) of the GPUs that NVML knows; `ask` as of `gpu_rates`."""
    for index in range(min(ask("nvmlDeviceGetCount") or 0, MAX_GPUS)):
        handle = ask("nvmlDeviceGetHandleByIndex", index)
        facts = None if handle is None else ask("nvmlDeviceGetPciInfo_v3", handle)
        if facts is None:
            continue
        raw = facts.busId
        try:
            yield bus_id(raw.decode() if isinstance(raw, bytes) else str(raw)), handle
        except (InputError, UnicodeDecodeError):
            continue


def gpu_rates(ask: Callable[..., Any], tree: Tree) -> dict[str, float]:
    """Measure GPU -> bytes per second over PCIe in its busier direction, over 20 ms.

    `ask(name, *arguments)` calls NVML and returns None where that fails.  NVML takes 20 ms for
    each direction of each GPU, so this belongs in a thread.
    """
    found: dict[str, float] = {}
    known_gpus = {node.id for node in tree.of_kind(Kind.GPU)}
    for gpu, handle in gpus(ask):
        both = [ask("nvmlDeviceGetPcieThroughput", handle, which) for which in (_TX, _RX)]
        known = [value for value in both if isinstance(value, int) and value >= 0]
        if gpu in known_gpus and known:
            found[gpu] = float(max(known)) * _KB
    return found
