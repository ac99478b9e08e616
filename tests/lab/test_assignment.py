"""The best assignment of small scenarios, of which it is known."""

from __future__ import annotations

from typing import Any

import pytest

from hostcc.lab.assignment import best, edges_of
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.scenario import from_document

pytestmark = pytest.mark.unit


def scenario(jobs: list[dict[str, Any]], **fabric: Any) -> LeafSpineScenario:
    shape = {"kind": "leaf-spine", "spines": 2, "hosts_per_leaf": 4, **fabric}
    found = from_document({"fabric": shape, "job": jobs}, "x")
    assert isinstance(found, LeafSpineScenario)
    return found


def job(name: str, *on: str, comm_ms: float = 50, **more: Any) -> dict[str, Any]:
    pattern = "push" if len(on) == 2 else "allreduce"
    return {
        "name": name, "on": list(on), "pattern": pattern, "compute_ms": 50, "comm_ms": comm_ms,
        **more,
    }  # fmt: skip


def test_two_flows_take_two_spines() -> None:
    wanted = scenario([job("a", "h1", "h5"), job("b", "h2", "h6")])
    found = best(wanted)
    assert found is not None
    assert len(set(found.spines.values())) == 2
    assert found.utilisation == pytest.approx(0.5, rel=0.1)
    assert found.seconds[0] == pytest.approx(0.1, rel=0.1)


def test_flows_of_two_leaves_do_not_meet_and_one_leaf_needs_no_choice() -> None:
    wanted = scenario([job("a", "h1", "h5"), job("b", "h6", "h2"), job("c", "h3", "h4")])
    assert len(edges_of(wanted)) == 2
    found = best(wanted)
    assert found is not None
    assert (found.enumerated, found.simulated) == (2, 1)  # both say the same


def test_the_heavy_flow_of_three_is_left_alone() -> None:
    heavy = job("heavy", "h1", "h5", comm_ms=200, flops=1e15)
    small = [job(name, f"h{n}", f"h{n + 4}", flops=1e9) for name, n in (("b", 2), ("c", 3))]
    found = best(scenario([heavy, *small]))
    assert found is not None
    first, *others = found.spines.values()
    assert first not in others


def test_too_many_to_try_is_said() -> None:
    jobs = [job(f"j{n}", *(f"h{k}" for k in (1, 5, 2, 6, 3, 7, 4, 8))) for n in range(2)]
    assert best(scenario(jobs, spines=4)) is None
