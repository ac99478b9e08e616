"""Which links seem to have failed: what searches miss, and what flows stand still on.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hostcc.daemon.steering.path_discovery import TargetPaths

FAILED_LINK_S = 30.0
"""A missed link counts as failed for this long, unless it is seen again."""


def failed_links(
    known: Iterable[TargetPaths], stalled: Iterable[tuple[TargetPaths | None, str]], now: float
) -> frozenset[str]:
    """Return links that searches have missed lately, or that only paths with stalled flows cross.

    `stalled`: paths to a flow's target, id of the path that it is on.
    """
    found = {
        link for one in known for link, at in one.gone.items() if now - at <= FAILED_LINK_S
    }  # fmt: skip
    for paths, path in stalled:
        if paths is None or paths.table is None or len(paths.table.paths) < 2:
            continue
        ways = {one.id: frozenset(one.links) for one in paths.table.paths}
        found |= ways.get(path, frozenset()) - frozenset.intersection(*ways.values())
    return frozenset(found)


def all_links(known: Iterable[TargetPaths]) -> frozenset[str]:
    """Return all links that are known, or were lately."""
    return frozenset(link for one in known for link in (*one.links, *one.gone))
