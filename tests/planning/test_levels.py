"""Marks of levels."""

from __future__ import annotations

import pytest

from hostcc.planning.levels import marks, table
from hostcc.sections.marking import MarkingConfig
from hostcc.sections.plan import PlanConfig
from tests.planning.made import made

pytestmark = pytest.mark.unit


def test_reserved_levels_are_left_out() -> None:
    found = table(PlanConfig(), MarkingConfig())
    assert found == {2: 40, 3: 32, 4: 24, 5: 16, 6: 8}
    few = table(PlanConfig(levels=2, reserved=(0,)), MarkingConfig(dscp=(46, 10)))
    assert few == {1: 10}


def test_jobs_without_a_path_are_not_marked() -> None:
    assert marks(made(), table(PlanConfig(), MarkingConfig())) == {"a": 40, "b": 32}


def test_nothing_without_a_plan() -> None:
    assert marks(None, table(PlanConfig(), MarkingConfig())) == {}
