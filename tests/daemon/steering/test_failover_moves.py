"""Plans for failures that have not happened: who moves, where to, and which failure it was."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.daemon.steering.failover_moves import answer, prepare
from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.schedule.problem import Problem, build

pytestmark = pytest.mark.unit

SPINES = 3


def fabric(hosts: int = 2) -> tuple[Problem, np.ndarray, tuple[PathTable, ...]]:
    """Hosts a1, a2 ... of one leaf send to b1, b2 ... of another; flow n is on spine n."""
    flows, tables, links = [], [], dict[str, float]()
    for n in range(hosts):
        paths = []
        for spine in range(SPINES):
            row = (f"a{n}>", f"up{spine}", f"down{spine}", f">b{n}")
            links |= dict.fromkeys(row, 1e9)
            paths.append(Path(f"p{spine}", row, (spine + 1,)))
        tables.append(PathTable(f"a{n}", f"b{n}", tuple(paths)))
        flows.append(Flow(f"a{n}/f", "train", f"a{n}", f"b{n}", 1e6 * (n + 1)))
    view = ClusterView(
        (JobProfile("train", 0.1, 0.1, 1e12, 1.0),), tuple(flows), tuple(tables),
        tuple(links.items()),
    )  # fmt: skip
    problem = build(view)
    routing = problem.table_start[problem.flow_table] + np.arange(hosts) % SPINES
    return problem, routing, view.tables


def test_a_flow_moves_to_where_nobody_is() -> None:
    problem, routing, tables = fabric()
    prepared = prepare(problem, routing, "a0/", tables)
    assert prepared[frozenset({"up0"})] == {"f": "p2"}
    assert prepared[frozenset({"down0"})] == {"f": "p2"}
    assert all(set(told) == {"f"} for told in prepared.values())


def test_a_switch_is_the_links_that_meet_at_it() -> None:
    problem, routing, tables = fabric()
    prepared = prepare(problem, routing, "a0/", tables)
    assert prepared[frozenset({"up0", "down0"})] == {"f": "p2"}
    # Whatever cuts it off from everything has no answer.
    assert not any("a0>" in links or ">b0" in links for links in prepared)


def test_links_are_taken_in_the_order_of_hops() -> None:
    row = ("a{0}", "c{0}", "b{0}")  # whatever their names say
    paths = tuple(Path(f"p{n}", tuple(one.format(n) for one in row), (n,)) for n in (1, 2))
    links = tuple((link, 1e9) for path in paths for link in path.links)
    view = ClusterView(
        (JobProfile("train", 0.1, 0.1, 1e12, 1.0),), (Flow("h/f", "train", "h", "b", 1e6),),
        (PathTable("h", "b", paths),), links,
    )  # fmt: skip
    problem = build(view)
    prepared = prepare(problem, problem.table_start[problem.flow_table], "h/", view.tables)
    assert {links for links in prepared if len(links) > 1} == {
        frozenset({"a1", "c1"}), frozenset({"c1", "b1"}),
    }  # fmt: skip


def test_failures_of_others_do_not_matter() -> None:
    problem, routing, tables = fabric()
    assert frozenset({"up1"}) not in prepare(problem, routing, "a0/", tables)
    assert prepare(problem, routing, "c/", tables) == {}


def test_all_hosts_prepare_the_same() -> None:
    problem, routing, tables = fabric(4)  # flows 0 and 3 are both on spine 0
    first = prepare(problem, routing, "a0/", tables)[frozenset({"up0"})]["f"]
    second = prepare(problem, routing, "a3/", tables)[frozenset({"up0"})]["f"]
    assert {first, second} == {"p1", "p2"}


def test_what_failed_is_told_from_what_is_dead() -> None:
    problem, routing, tables = fabric()
    prepared = prepare(problem, routing, "a0/", tables)
    seen = frozenset({"a0>", "up0", "down0", "up1", "down1", ">b0"})
    assert answer(prepared, frozenset({"up0", "down0"}), seen) == {"f": "p2"}
    assert answer(prepared, frozenset({"down0"}), seen) == {"f": "p2"}
    assert answer(prepared, frozenset({"down1"}), seen) == {}
    assert answer(prepared, frozenset(), seen) == {}
