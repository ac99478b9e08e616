"""Which jobs count as receiving while they send."""

from __future__ import annotations

import pytest

from hostcc.measuring.tracks import Track
from hostcc.measuring.two_way import LEAST_BYTES, two_way

pytestmark = pytest.mark.unit

MB = 1e6


def track(name: str, *pairs: tuple[float, float]) -> Track:
    return Track(name, to={f"10.0.0.{n}": pair for n, pair in enumerate(pairs)})  # type: ignore[misc]


def found(one: Track, *before: str) -> bool:
    return one.name in two_way([one], frozenset(before))


def test_a_ring_sends_to_one_and_receives_from_another() -> None:
    assert found(track("ring", (100 * MB, 3 * MB), (3 * MB, 100 * MB)))


@pytest.mark.parametrize("pair", [(100 * MB, 3 * MB), (3 * MB, 100 * MB)])
def test_acknowledgements_are_no_direction(pair: tuple[float, float]) -> None:
    assert not found(track("one", pair))


def test_what_was_found_stays_until_it_is_clearly_gone() -> None:
    between = track("job", (100 * MB, 20 * MB))
    assert not found(between)
    assert found(between, "job")
    assert not found(track("job", (100 * MB, 10 * MB)), "job")


def test_little_is_not_judged() -> None:
    assert not found(track("job", (LEAST_BYTES - 1, LEAST_BYTES - 1)))
    assert found(track("job", (LEAST_BYTES, LEAST_BYTES)))
    assert not found(track("job"))


def test_a_job_is_judged_before_it_is_known_where_its_bytes_go() -> None:
    assert found(Track("ring", total=(LEAST_BYTES, LEAST_BYTES)))
    assert not found(Track("one way", total=(100 * LEAST_BYTES, LEAST_BYTES)))
    known = Track("one way", total=(1 << 30, 1 << 30), to={"10.0.0.1": (100 * MB, 3 * MB)})  # type: ignore[dict-item]
    assert not found(known)
