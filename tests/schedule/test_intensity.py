"""What jobs put on links, and which links keep anybody waiting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.model import ClusterView, Flow, Path, PathTable
from hostcc.schedule.intensity import fillable, intensity
from hostcc.schedule.plan import Options, solve
from tests.schedule.views import job

pytestmark = pytest.mark.unit


def behind_one_nic(nic: float, uplinks: tuple[float, float]) -> ClusterView:
    """Two jobs of one host whose flows go their own ways behind its NIC."""
    return ClusterView(
        jobs=(job("a", work=4.0), job("b", work=1.0)),
        flows=tuple(Flow(name, name, "h", f"to-{name}", bytes=1.0) for name in "ab"),
        tables=tuple(
            PathTable("h", f"to-{name}", (Path("only", ("nic", f"up-{name}")),)) for name in "ab"
        ),
        links=(("nic", nic), *((f"up-{name}", up) for name, up in zip("ab", uplinks, strict=True))),
        digest="d",
    )


@pytest.mark.parametrize(
    ("nic", "uplinks", "meet"),
    [
        (10.0, (0.8, 0.8), False),
        (1.6, (0.8, 0.8), False),  # both at their fastest just fit
        (1.5, (0.8, 0.8), True),
        (1.0, (10.0, 10.0), True),  # the NIC is the slowest link of both
        (1.0, (0.2, 0.8), False),
    ],
)
@pytest.mark.parametrize("simulations", [0, 400])
def test_jobs_meet_where_they_can_fill_a_link(
    nic: float, uplinks: tuple[float, float], meet: bool, simulations: int
) -> None:
    found = solve(behind_one_nic(nic, uplinks), Options(simulations=simulations))
    assert [bool(others) for others in found.contenders.tolist()] == [meet, meet]
    assert (found.decision.level[0] != found.decision.level[1]) == meet


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1)), max_size=20))
def test_links_are_full_from_their_capacity_on(asked: list[tuple[int, float]]) -> None:
    link = np.array([one for one, _ in asked], np.int64)
    full = fillable(link, np.array([part for _, part in asked]))
    for number in set(link.tolist()):
        together = sum(part for one, part in asked if one == number)
        if abs(together - 1) > 1e-5:
            assert full[number] == (together > 1)


def test_next_to_no_traffic_is_no_error() -> None:
    found = intensity(np.array([1.0, 1.0, 0.0]), np.array([5e-324, 0.0, 1.0]))
    assert found[0] > 0
    assert found[1:].tolist() == [0.0, 0.0]
