"""Tells which claimants of a job really take part in it: those that the other claimants send to.

Any host can claim to run a part of a job, but it cannot make the job's hosts send to it.
"""

from __future__ import annotations

from collections.abc import Mapping


def participants(sends: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the largest set of claimants that reach one another; ties go to the smallest name.

    `sends`: claimant -> members that it sends the job's traffic to. If no claimants reach one
    another, nothing is known of the traffic and all of them count.
    """
    parts = _components({one: sorted(to & sends.keys()) for one, to in sends.items()})
    largest = min(parts, key=lambda part: (-len(part), min(part)), default=frozenset[str]())
    return largest if len(largest) > 1 else frozenset(sends)


def _components(edges: Mapping[str, list[str]]) -> list[frozenset[str]]:
    """Return the strongly connected components (Tarjan, 1972), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[frozenset[str]] = []
    for root in sorted(edges):
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, following = work[-1]
            for after in following:
                if after not in index:
                    index[after] = low[after] = len(index)
                    stack.append(after)
                    on_stack.add(after)
                    work.append((after, iter(edges[after])))
                    break
                if after in on_stack:
                    low[node] = min(low[node], index[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    found.append(frozenset(stack[cut:]))
                    on_stack.difference_update(stack[cut:])
                    del stack[cut:]
    return found
