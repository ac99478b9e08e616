"""What a plan and profiling do to a job's weight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.mltcp.params import JobParams, Mode, Variant
from hostcc.mltcp.preference import FIRST_JOB_FACTOR, MAX_FACTOR_BY_LOSS, PLAIN_SHAPE, JobPreference

pytestmark = pytest.mark.unit

WISHED = JobParams("a", weight=2.0, static_weight=3.0)


def test_a_plan_multiplies_the_owners_weight_once() -> None:
    planned = JobPreference(planned={"a": 1.5}).applied_to(WISHED)
    assert planned == replace(WISHED, weight=3.0, plain_weight=2.0)
    assert JobPreference(planned={"b": 1.5}).applied_to(WISHED) == replace(WISHED, plain_weight=2.0)


def test_both_count() -> None:
    both = JobPreference("a", {"a": 0.5})
    assert both.applied_to(WISHED).weight == FIRST_JOB_FACTOR
    assert both.factor("b") == 1.0


@pytest.mark.parametrize("mode", [Mode.STATIC, Mode.OFF])
def test_other_modes_are_what_somebody_asked_for(mode: Mode) -> None:
    wished = replace(WISHED, mode=mode)
    assert JobPreference("a", {"a": 2.0}).applied_to(wished) == wished


def test_bounds() -> None:
    assert JobPreference(planned={"a": 1000.0}).applied_to(WISHED).weight == 100.0
    assert JobPreference(planned={"a": 1e-9}).applied_to(WISHED).weight == 0.01


def test_what_is_new_to_a_job() -> None:
    preference = JobPreference(planned={"a": 1.5})
    assert preference.same_for(JobPreference(), "b")
    assert not preference.same_for(JobPreference(), "a")
    assert not preference.same_for(replace(preference, first="a"), "a")
    assert not preference.same_for(replace(preference, alone=frozenset("a")), "a")
    assert not preference.same_for(
        JobPreference("a", {"a": 1.5 / FIRST_JOB_FACTOR}), "a"
    )  # plain_weight is another


def test_plain_growth_is_never_faster_than_asked_for_and_ignores_profiling() -> None:
    assert JobPreference("a").applied_to(WISHED).plain_weight == WISHED.weight
    both = JobPreference("a", {"a": 2.0}).applied_to(WISHED)
    assert both.plain_weight == WISHED.weight
    # Four times faster than the lowest level, as the plan wants it.
    assert JobPreference("a", {"a": 0.5}).applied_to(WISHED).plain_weight == WISHED.weight / 4


SCALED = replace(WISHED, variant=Variant.CUBIC)


def test_windows_that_grow_by_f_grow_twice_as_fast_at_most() -> None:
    both = JobPreference("a", {"a": 2.0})
    assert both.applied_to(SCALED).weight == MAX_FACTOR_BY_LOSS * WISHED.weight
    assert JobPreference(planned={"a": 0.5}).applied_to(SCALED).weight == 1.0


def test_who_meets_nobody_grows_as_the_plain_algorithm() -> None:
    applied_to = JobPreference("a", alone=frozenset("a")).applied_to(SCALED)
    assert (applied_to.shape, applied_to.weight) == (PLAIN_SHAPE, 1.0)


def test_who_meets_nobody_is_steered_by_delay_as_ever() -> None:
    applied_to = JobPreference(alone=frozenset("a")).applied_to(WISHED)
    assert applied_to == replace(WISHED, plain_weight=1.0)
