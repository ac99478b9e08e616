"""What a plan and profiling do to a job's weight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.mltcp.favour import EVEN, MOST_BY_LOSS, PREFERENCE, Favour
from hostcc.mltcp.params import JobParams, Mode, Variant

pytestmark = pytest.mark.unit

WISHED = JobParams("a", weight=2.0, static_weight=3.0)


def test_a_plan_multiplies_the_owners_weight_once() -> None:
    assert Favour(planned={"a": 1.5}).applied(WISHED) == replace(WISHED, weight=3.0)
    assert Favour(planned={"b": 1.5}).applied(WISHED) == WISHED


def test_both_count() -> None:
    both = Favour("a", {"a": 0.5})
    assert both.applied(WISHED).weight == PREFERENCE
    assert both.factor("b") == 1.0


@pytest.mark.parametrize("mode", [Mode.STATIC, Mode.OFF])
def test_other_modes_are_what_somebody_asked_for(mode: Mode) -> None:
    wished = replace(WISHED, mode=mode)
    assert Favour("a", {"a": 2.0}).applied(wished) == wished


def test_bounds() -> None:
    assert Favour(planned={"a": 1000.0}).applied(WISHED).weight == 100.0
    assert Favour(planned={"a": 1e-9}).applied(WISHED).weight == 0.01


def test_who_receives_while_sending_is_not_steered_by_delay() -> None:
    favour = Favour(two_way=frozenset("a"))
    assert favour.applied(WISHED) == replace(WISHED, by_delay=False)
    assert favour.applied(replace(WISHED, mode=Mode.OFF)).by_delay
    assert favour.same(Favour(), "b")
    assert not favour.same(Favour(), "a")
    assert not favour.same(replace(favour, first="a"), "a")
    assert not favour.same(replace(favour, alone=frozenset("a")), "a")


BY_LOSS = [
    (WISHED, Favour(two_way=frozenset("a"))),
    (replace(WISHED, variant=Variant.CUBIC), Favour()),
]


@pytest.mark.parametrize(("wished", "favour"), BY_LOSS)
def test_windows_that_grow_by_f_grow_twice_as_fast_at_most(
    wished: JobParams, favour: Favour
) -> None:
    both = replace(favour, first="a", planned={"a": 2.0})
    assert both.applied(wished).weight == MOST_BY_LOSS * WISHED.weight
    assert replace(favour, planned={"a": 0.5}).applied(wished).weight == 1.0


@pytest.mark.parametrize(("wished", "favour"), BY_LOSS)
def test_who_meets_nobody_grows_as_the_plain_algorithm(wished: JobParams, favour: Favour) -> None:
    applied = replace(favour, alone=frozenset("a"), first="a").applied(wished)
    assert (applied.shape, applied.weight) == (EVEN, 1.0)


def test_who_meets_nobody_is_steered_by_delay_as_ever() -> None:
    assert Favour(alone=frozenset("a")).applied(WISHED) == WISHED
