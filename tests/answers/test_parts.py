"""Rows of parts, of agents of any version."""

from __future__ import annotations

import pytest

from hostcc.answers.parts import GpuPart, Part, part_of

pytestmark = pytest.mark.unit


def test_a_part_that_is_declared_has_its_figures() -> None:
    row = {"name": "gpu", "state": "running", "gpus": 8, "later": 1}
    assert part_of(row) == GpuPart(name="gpu", state="running", gpus=8)


@pytest.mark.parametrize(
    "row",
    [
        {"name": "later", "state": "off", "figure": 1},
        {"name": "gpu", "state": "off", "gpus": "as another version says it"},
    ],
)
def test_one_of_another_version_has_its_name_and_state(row: dict[str, object]) -> None:
    assert part_of(row) == Part(name=str(row["name"]), state="off")


@pytest.mark.parametrize("row", [{}, {"name": ["gpu"]}, {"name": "gpu", "state": None}])
def test_a_row_that_says_nothing_of_a_part(row: dict[str, object]) -> None:
    assert part_of(row) == Part()
