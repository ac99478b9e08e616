"""Marks of levels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.config.sections.marking import MarkingConfig
from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.levels import marks, table, unrivalled, with_turn
from tests.daemon.planning.made import made

pytestmark = pytest.mark.unit


def test_a_job_that_is_profiled_has_the_highest_mark() -> None:
    dscp = {2: 40, 3: 32}
    assert with_turn({"a": 40, "b": 32}, "b", dscp) == {"a": 40, "b": 40}
    assert with_turn({}, "new", dscp) == {"new": 40}  # no plan holds
    assert with_turn({"a": 32}, "", dscp) == {"a": 32}
    assert with_turn({"a": 32}, "a", {}) == {"a": 32}


def test_reserved_levels_are_left_out() -> None:
    found = table(PlanConfig(), MarkingConfig())
    assert found == {2: 40, 3: 32, 4: 24, 5: 16, 6: 8}
    few = table(PlanConfig(levels=2, reserved=(0,)), MarkingConfig(dscp=(46, 10)))
    assert few == {1: 10}


DSCP = table(PlanConfig(), MarkingConfig())


def test_jobs_have_the_mark_of_their_level_and_no_job_waits_behind_all_others() -> None:
    """No path of job c is known."""
    assert marks(made(), DSCP) == {"a": 40, "b": 32, "c": 32}


def test_where_no_path_is_known_nobody_is_marked() -> None:
    assert marks(replace(made(), blind=frozenset("abc")), DSCP) == {}


def test_nothing_without_a_plan() -> None:
    assert marks(None, DSCP) == {}


def test_who_waits_in_a_queue_with_nobody() -> None:
    known = replace(made(), blind=frozenset())
    assert unrivalled(known, {2: 40, 3: 32, 4: 24}) == {"a", "b", "c"}
    assert unrivalled(known, {2: 40, 3: 40, 4: 24}) == {"c"}  # one mark for two levels
    assert unrivalled(made(), DSCP) == {"a"}  # c may be anywhere, and has the mark of b
    assert unrivalled(replace(made(), blind=frozenset("abc")), DSCP) == set()  # nobody is marked
