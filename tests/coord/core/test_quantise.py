"""Noise changes nothing that is published; a real change does."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.core import payloads, quantise
from hostcc.coord.core.payloads import FlowEntry, Profile
from hostcc.model import JobProfile
from tests.coord.records import record

pytestmark = pytest.mark.unit

VALUES = st.floats(1e-9, 1e18)


def measured(scale: float = 1.0) -> JobProfile:
    return JobProfile(
        "j",
        compute_s=1.03 * scale,
        comm_start_s=0.61 * scale,
        work=3.3e15 * scale,
        gpus=8.0,
        period_s=1.4 * scale,
        comm_s=0.41 * scale,
        bytes_to=(("a", 1.2e9 * scale), ("b", 3.4e8 * scale)),
        slowdown=1.3 * scale,
    )


@given(VALUES)
def test_the_nearest_point_is_within_half_a_step_and_stays_itself(value: float) -> None:
    point = quantise.nearest(value)
    assert point == pytest.approx(value, rel=0.051)
    assert quantise.nearest(point) == point


@given(VALUES, st.floats(0.95, 1.05))
def test_small_changes_are_held(value: float, factor: float) -> None:
    point = quantise.nearest(value)
    assert quantise.hold(point, point * factor) == point


@given(VALUES, st.floats(1.2, 100.0))
def test_large_changes_are_not(value: float, factor: float) -> None:
    point = quantise.nearest(value)
    assert quantise.hold(point, point * factor) > point
    assert quantise.hold(point, point / factor) < point


def test_nothing_and_nonsense() -> None:
    for value in (0.0, -1.0, float("nan"), float("inf")):
        assert quantise.nearest(value) == 0.0
    assert quantise.hold(0.0, 5.0) == quantise.nearest(5.0)
    assert quantise.hold(5.0, 0.0) == 0.0


def test_noise_around_any_value_moves_a_published_value_once_at_most() -> None:
    rng = Random(1)
    for _ in range(50):
        centre = rng.uniform(0.5, 2.0)
        published = None
        seen: dict[str, set[object]] = {name: set() for name in Profile.__struct_fields__}
        for _ in range(200):
            published = quantise.profile(measured(centre * rng.uniform(0.98, 1.02)), published)
            for name, values in seen.items():
                values.add(getattr(published, name))
        del seen["to"]
        assert max(map(len, seen.values())) <= 2


def test_what_is_published_is_within_bounds() -> None:
    wild = JobProfile("j", 1e9, 1e9, 1e15, 8.0, period_s=1e9, comm_s=1e9, slowdown=1e9)
    content = quantise.profile(wild)
    assert payloads.decode(record("a", "profile", "j", content)) == content


def test_only_the_largest_destinations_are_published() -> None:
    many = tuple((f"h{index}", float(index + 1)) for index in range(500))
    base = measured()
    content = quantise.profile(
        JobProfile("j", base.compute_s, base.comm_start_s, base.work, 8.0, bytes_to=many)
    )
    assert len(content.to) == payloads.MAX_DESTINATIONS
    assert "h499" in dict(content.to)
    assert "h0" not in dict(content.to)


def test_a_guess_says_that_it_is_one() -> None:
    assert quantise.profile(replace(measured(), confidence=0.0)).provisional
    assert not quantise.profile(replace(measured(), confidence=0.3)).provisional


def test_flows_are_held_by_name() -> None:
    first = quantise.flows((FlowEntry("f", "b", 1e9), FlowEntry("g", "b", 2e9)))
    again = quantise.flows((FlowEntry("g", "b", 2.05e9), FlowEntry("f", "b", 0.97e9)), first)
    assert again == first
    assert quantise.flows((FlowEntry("f", "b", 2e9),), first) != first
