"""Plans for failures that have not happened: who moves, where to, and which failure it was."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.routing.ahead import answer, prepare
from hostcc.schedule.problem import Problem, build

pytestmark = pytest.mark.unit

SPINES = 3


def fabric(hosts: int = 2) -> tuple[Problem, np.ndarray]:
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
    return problem, routing


def test_a_flow_moves_to_where_nobody_is() -> None:
    problem, routing = fabric()
    prepared = prepare(problem, routing, "a0")
    assert prepared[frozenset({"up0"})] == {"f": "p2"}
    assert prepared[frozenset({"down0"})] == {"f": "p2"}
    assert all(set(told) == {"f"} for told in prepared.values())


def test_a_switch_is_the_links_that_meet_at_it() -> None:
    problem, routing = fabric()
    prepared = prepare(problem, routing, "a0")
    assert prepared[frozenset({"up0", "down0"})] == {"f": "p2"}
    # Whatever cuts it off from everything has no answer.
    assert not any("a0>" in links or ">b0" in links for links in prepared)


def test_failures_of_others_do_not_matter() -> None:
    problem, routing = fabric()
    assert frozenset({"up1"}) not in prepare(problem, routing, "a0")
    assert prepare(problem, routing, "c") == {}


def test_all_hosts_prepare_the_same() -> None:
    problem, routing = fabric(4)  # flows 0 and 3 are both on spine 0
    first = prepare(problem, routing, "a0")[frozenset({"up0"})]["f"]
    second = prepare(problem, routing, "a3")[frozenset({"up0"})]["f"]
    assert {first, second} == {"p1", "p2"}


def test_what_failed_is_told_from_what_is_dead() -> None:
    problem, routing = fabric()
    prepared = prepare(problem, routing, "a0")
    seen = frozenset({"a0>", "up0", "down0", "up1", "down1", ">b0"})
    assert answer(prepared, frozenset({"up0", "down0"}), seen) == {"f": "p2"}
    assert answer(prepared, frozenset({"down0"}), seen) == {"f": "p2"}
    assert answer(prepared, frozenset({"down1"}), seen) == {}
    assert answer(prepared, frozenset(), seen) == {}
