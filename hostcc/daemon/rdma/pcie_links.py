"""Finds PCIe links that jobs share on this host, and names them for other hosts.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hostcc.daemon.rdma.pairs import Sender
from hostcc.errors import InputError
from hostcc.pcie.tree import Kind, Tree, Uses, host_of, nearest, path, shared, to_host

_ODD = re.compile(r"[^A-Za-z0-9._:-]")
MAX_NAME_CHARS = 96
"""Characters of a link's name in gossip (coord.payloads.LinkName)."""


@dataclass(frozen=True)
class SharedLinks:
    """Links that several jobs use."""

    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Link -> jobs."""
    gates: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Job -> (RDMA device, link at which its queue pairs take turns)."""


def link_name(host: str, node: str, *, up: bool) -> str:
    """Name one direction of the link above a node; `HOST/pci/0000:3b:00.0/up`: towards the host."""
    tail = f"/pci/{_ODD.sub('_', node)}/{'up' if up else 'down'}"
    return _ODD.sub("_", host)[: MAX_NAME_CHARS - len(tail)] + tail


def crossed(tree: Tree, host: str, source: str, target: str) -> tuple[str, ...]:
    """Return names of the links that a job's bytes cross from a GPU to a NIC, or, where `target` is
    empty, from the memory to the NIC `source`."""
    above = {*to_host(tree, source), host_of(tree, source)} if target else set()
    way = path(tree, source, target) if target else reversed(to_host(tree, source))
    return tuple(
        link_name(host, node, up=node in above)
        for node in way
        if tree.nodes[node].kind is not Kind.DOWNSTREAM  # the inside of a switch is no link
    )


def pairs_of(
    tree: Tree, senders: Iterable[Sender], gpus: Mapping[int, Sequence[str]]
) -> dict[str, dict[str, list[tuple[str, str]]]]:
    """Return job -> RDMA device -> (source device, NIC) of what is sent by it.

    `gpus`: process -> its GPUs.  A GPU is taken to use the nearest of its process's NICs; a NIC
    that no GPU uses reads the memory.
    """
    found: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for sender in senders:
        nics = {}
        for device in sorted({pair.device for pair in sender.pairs}):
            node = _nic(tree, device)
            if node:
                nics[node] = device
        job = found.setdefault(sender.job, {})
        for gpu in gpus.get(sender.pid, ()):
            if nics and gpu in tree.nodes:
                nic = nearest(tree, gpu, list(nics))
                job.setdefault(nics[nic], []).append((gpu, nic))
        for nic, device in nics.items():
            if device not in job:
                job[device] = [(nic, "")]
    return found


def uses(pairs: Mapping[str, Mapping[str, Sequence[tuple[str, str]]]]) -> Uses:
    """Return the same without devices, as hostcc.pcie.tree takes it."""
    return {
        job: [pair for those in devices.values() for pair in those]
        for job, devices in pairs.items()
    }


def turns(tree: Tree, pairs: Mapping[str, Mapping[str, Sequence[tuple[str, str]]]]) -> SharedLinks:
    """Choose where jobs take turns: for each device the slowest shared link on its way."""
    links = shared(tree, uses(pairs))
    gates: dict[str, tuple[tuple[str, str], ...]] = {}
    for job, devices in pairs.items():
        own = []
        for device, those in sorted(devices.items()):
            on = {
                link for pair in those for link in path(tree, *pair) if job in links.get(link, ())
            }
            if on:
                own.append((device, min(on, key=lambda link: (_rate(tree, link), link))))
        if own:
            gates[job] = tuple(own)
    used = {link for own_gates in gates.values() for _, link in own_gates}
    return SharedLinks({link: jobs for link, jobs in links.items() if link in used}, gates)


def _rate(tree: Tree, link: str) -> float:
    return tree.nodes[link].rate or float("inf")


def _nic(tree: Tree, device: str) -> str:
    try:
        node = tree.find(device)
    except InputError:
        return ""
    return node.id if node.kind is Kind.NIC else ""
