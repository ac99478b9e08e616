"""Writes the PCIe tree as text.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hostcc.errors import one_line
from hostcc.pcie.tree import Kind, Node, Tree

INTERESTING = frozenset({Kind.GPU, Kind.NIC})


def lines(
    tree: Tree, jobs: Mapping[str, tuple[str, ...]] | None = None, *, everything: bool = False
) -> Iterator[str]:
    """Write one line per node: GPUs, NICs and what is above them, or `everything`.

    `jobs`: link -> jobs that use it, shown beside it.
    """
    children = tree.children()
    keep = set(tree.nodes) if everything else _kept(tree)
    for host in children.get("", []):
        if host.id in keep:
            numa = "" if host.numa is None or host.numa < 0 else f"  NUMA {host.numa}"
            yield f"{host.id}{numa}{_beside(host, jobs)}"
            yield from _below(host, children, keep, "", jobs)


def _below(
    node: Node,
    children: Mapping[str, list[Node]],
    keep: set[str],
    indent: str,
    jobs: Mapping[str, tuple[str, ...]] | None,
) -> Iterator[str]:
    shown = [child for child in children.get(node.id, []) if child.id in keep]
    for child in shown:
        last = child is shown[-1]
        yield f"{indent}{'└─' if last else '├─'} {label(child)}{_beside(child, jobs)}"
        yield from _below(child, children, keep, indent + ("   " if last else "│  "), jobs)


def label(node: Node) -> str:
    """Describe a node, without its place."""
    words = [str(node.kind), node.id, *node.names]
    if node.speed_gts and node.width:
        words.append(f"{node.speed_gts:g} GT/s x{node.width}")
    if node.rate:
        words.append(f"({node.rate / 1e9:.1f} GB/s)")
    if node.rate and node.max_rate and node.max_rate > node.rate * 1.01:
        words.append(f"of {node.max_rate / 1e9:.1f}")
    return one_line(" ".join(words))


def _beside(node: Node, jobs: Mapping[str, tuple[str, ...]] | None) -> str:
    on = (jobs or {}).get(node.id, ())
    return f"  <- {', '.join(on)}" if on else ""


def _kept(tree: Tree) -> set[str]:
    kept: set[str] = set()
    for node in tree.nodes.values():
        at: Node | None = node if node.kind in INTERESTING else None
        while at is not None and at.id not in kept:
            kept.add(at.id)
            at = tree.nodes.get(at.parent)
    return kept
