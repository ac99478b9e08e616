"""Plans for failures that have not happened yet: of each single link, and of each switch.

The plan for a failure is the one that every host makes once the view reports it. Flows that can
stay keep their present path, stranded flows are placed anew, and order and levels follow. So a host
that acts on such a plan does what the others will agree on.

Each takes as long as a plan. The agent only prepares paths for its own host's flows
(daemon/steering/failover.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np

from hostcc.model import ClusterView, PathTable, Plan
from hostcc.schedule.intensity import incidence
from hostcc.schedule.plan import Options, plan, solve
from hostcc.schedule.problem import Ints, Problem

MAX_FAILURES = 64
"""Failures that are planned for, those that affect most traffic first."""

Links = frozenset[str]
"""Links that fail together: one, or all links of a switch."""
Group = tuple[int, ...]
"""The same as indices, ascending."""
End = tuple[str, bool]
"""One end of a link: where it begins (False) or ends (True)."""


# Not called by the agent yet: it waits for the work on plans.
def failure_plans(
    view: ClusterView, options: Options | None = None, most: int = MAX_FAILURES
) -> Mapping[Links, Plan]:
    """Return plans for at most `most` failures, by the links that fail.

    Each takes as long as a plan does. Raises ViewError and OptionsError.
    """
    return dict(islice(iter_failure_plans(view, options), max(0, most)))


def iter_failure_plans(
    view: ClusterView, options: Options | None = None
) -> Iterator[tuple[Links, Plan]]:
    """Yield plans for all failures, those that affect most traffic first."""
    found = solve(view, options)
    problem, routing = found.problem, found.decision.routing
    on = {
        flow: problem.path_ids[path]
        for flow, path in zip(problem.flow_ids, routing.tolist(), strict=True)
    }
    flows = tuple(replace(flow, path=on.get(flow.id, flow.path)) for flow in view.flows)
    present = replace(view, flows=flows)
    for links in failures(problem, routing, view.tables):
        names = frozenset(problem.link_ids[link] for link in links)
        made = plan(view_without(present, names), options)
        yield names, replace(made, reason=f"if {_named(names)} fails: {made.reason}")


def view_without(view: ClusterView, links: Links) -> ClusterView:
    """Return the view after these links have failed."""
    left = tuple((name, 0.0 if name in links else rate) for name, rate in view.links)
    return replace(view, links=left)


def failures(problem: Problem, routing: Ints, tables: Iterable[PathTable]) -> list[Group]:
    """Return links, and groups of links at a switch, whose failure strands a flow that has another
    path.

    For a routing (F,); failures that affect most bytes come first. `tables` give the order of links
    on each path.
    """
    flow, link = incidence(problem, routing)
    number = {name: index for index, name in enumerate(problem.link_ids)}
    groups: set[Group] = {(one,) for one in np.unique(link).tolist()}
    for switch in switches(tables):
        alive = sorted(number[name] for name in switch if name in number)
        if np.isin(alive, link).any():
            groups.add(tuple(alive))
    hit = {}
    for group in groups:
        cut = np.unique(flow[np.isin(link, group)])
        if _reachable(problem, cut, group):
            hit[group] = float(problem.flow_bytes[cut].sum())
    return sorted(hit, key=lambda group: (-hit[group], group))


def _reachable(problem: Problem, flows: Ints, dead: Group) -> bool:
    """Return whether any of the flows has a path without these links."""
    for table in np.unique(problem.flow_table[flows]).tolist():
        for path in range(*problem.table_start[table : table + 2].tolist()):
            links = problem.path_links[problem.path_start[path] : problem.path_start[path + 1]]
            if not np.isin(links, dead).any():
                return True
    return False


def switches(tables: Iterable[PathTable]) -> list[Links]:
    """Return the links of each switch: consecutive links of a path meet at a switch."""
    follows = {pair for table in tables for path in table.paths for pair in pairwise(path.links)}
    parent: dict[End, End] = {}

    def root(end: End) -> End:
        while parent.setdefault(end, end) != end:
            parent[end] = parent[parent[end]]
            end = parent[end]
        return end

    for before, after in follows:
        parent[root((before, True))] = root((after, False))
    groups: dict[End, set[str]] = {}
    for end in list(parent):
        groups.setdefault(root(end), set()).add(end[0])
    return sorted((frozenset(group) for group in groups.values()), key=sorted)


def _named(links: Links) -> str:
    first = min(links)
    return first if len(links) == 1 else f"the switch of {first}"
