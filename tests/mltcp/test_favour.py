"""What a plan and profiling do to a job's weight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.mltcp.favour import EVEN, MOST_BY_LOSS, PREFERENCE, JobPreference
from hostcc.mltcp.params import JobParams, Mode, Variant

pytestmark = pytest.mark.unit

WISHED = JobParams("a", weight=2.0, static_weight=3.0)


def test_a_plan_multiplies_the_owners_weight_once() -> None:
    planned = JobPreference(planned={"a": 1.5}).applied(WISHED)
    assert planned == replace(WISHED, weight=3.0, plain_weight=3.0)
    assert JobPreference(planned={"b": 1.5}).applied(WISHED) == replace(WISHED, plain_weight=2.0)


def test_both_count() -> None:
    both = JobPreference("a", {"a": 0.5})
    assert both.applied(WISHED).weight == PREFERENCE
    assert both.factor("b") == 1.0


@pytest.mark.parametrize("mode", [Mode.STATIC, Mode.OFF])
def test_other_modes_are_what_somebody_asked_for(mode: Mode) -> None:
    wished = replace(WISHED, mode=mode)
    assert JobPreference("a", {"a": 2.0}).applied(wished) == wished


def test_bounds() -> None:
    assert JobPreference(planned={"a": 1000.0}).applied(WISHED).weight == 100.0
    assert JobPreference(planned={"a": 1e-9}).applied(WISHED).weight == 0.01


def test_what_is_new_to_a_job() -> None:
    favour = JobPreference(planned={"a": 1.5})
    assert favour.same(JobPreference(), "b")
    assert not favour.same(JobPreference(), "a")
    assert not favour.same(replace(favour, first="a"), "a")
    assert not favour.same(replace(favour, alone=frozenset("a")), "a")
    assert not favour.same(
        JobPreference("a", {"a": 1.5 / PREFERENCE}), "a"
    )  # plain_weight is another


def test_plain_growth_is_twice_as_fast_at_most_and_ignores_profiling() -> None:
    assert JobPreference("a").applied(WISHED).plain_weight == WISHED.weight
    both = JobPreference("a", {"a": 5.0}).applied(WISHED)
    assert both.plain_weight == MOST_BY_LOSS * WISHED.weight
    assert JobPreference("a", {"a": 0.5}).applied(WISHED).plain_weight == 1.0


SCALED = replace(WISHED, variant=Variant.CUBIC)


def test_windows_that_grow_by_f_grow_twice_as_fast_at_most() -> None:
    both = JobPreference("a", {"a": 2.0})
    assert both.applied(SCALED).weight == MOST_BY_LOSS * WISHED.weight
    assert JobPreference(planned={"a": 0.5}).applied(SCALED).weight == 1.0


def test_who_meets_nobody_grows_as_the_plain_algorithm() -> None:
    applied = JobPreference("a", alone=frozenset("a")).applied(SCALED)
    assert (applied.shape, applied.weight) == (EVEN, 1.0)


def test_who_meets_nobody_is_steered_by_delay_as_ever() -> None:
    applied = JobPreference(alone=frozenset("a")).applied(WISHED)
    assert applied == replace(WISHED, plain_weight=1.0)
