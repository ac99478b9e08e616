"""New iterations beside those that were learned."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.measure.changes import Iteration, changed, following, reference
from hostcc.measure.period import detect
from hostcc.measure.series import joined, part, series
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit

LEARNED = regular(100, 14)


def after(more: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Iteration]:
    """The iterations that are found in what comes after the learned ones."""
    found = detect(LEARNED)
    known = reference(LEARNED, found)
    assert known is not None
    assert found.starts is not None
    whole = joined(LEARNED, series(more // 2, more // 2, MS, LEARNED.end_ns))
    return following(whole, float(found.starts[-1]), known)


def pieces(
    *lengths: int, burst: int = 40, high: int = 1000
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate([np.where(np.arange(n) >= n - burst, high, 0) for n in lengths])


def test_the_same_again() -> None:
    found = after(pieces(*[100] * 6))
    assert len(found) >= 5
    for one in found:
        assert not one.deviates
        assert one.length == pytest.approx(1, abs=0.02)
        assert one.sent == pytest.approx(1, abs=0.01)


def test_a_late_one_and_a_bigger_one() -> None:
    late = after(pieces(100, 160, 100, 100))
    assert [one.by_length for one in late[1:4]] == [False, True, False]
    assert late[2].length == pytest.approx(1.6, abs=0.03)
    assert not any(one.by_bytes for one in late)
    bigger = after(np.concatenate((pieces(100), pieces(100, high=1300), pieces(100, 100))))
    assert [one.by_bytes for one in bigger[2:5]] == [False, True, False]
    assert bigger[3].sent == pytest.approx(1.3, abs=0.02)


def test_silence_loses_the_thread() -> None:
    found = after(np.zeros(700, dtype=np.int64))
    assert len(found) >= 4
    assert all(one.lost and one.deviates for one in found[1:])


def test_nothing_is_said_before_it_can_be_seen() -> None:
    found = detect(LEARNED)
    known = reference(LEARNED, found)
    assert known is not None
    assert found.starts is not None
    assert following(part(LEARNED, 0, int(found.starts[-1]) + 20), found.starts[-1], known) == []
    assert reference(LEARNED, detect(part(LEARNED, 0, 120))) is None


def one(length: float = 1.0, sent: float = 1.0) -> Iteration:
    """With usual tolerances of a twentieth."""
    return Iteration(
        0.0, length, sent, by_length=abs(length - 1) > 0.05, by_bytes=abs(sent - 1) > 0.05
    )


@pytest.mark.parametrize(
    ("recent", "calm", "expected"),
    [
        ([one(1.5)], True, False),
        ([one(1.5), one()], True, False),
        ([one(1.5), one(1.5)], False, True),
        ([one(1.5), one(2.5)], False, False),
        ([one(1.5), one(2.5)], True, True),
        ([one(1.5), one(2.5), one(1.8)], False, True),
        ([one(sent=1.3), one(1.2, sent=1.3)], False, True),
        ([one(1.5), one(sent=1.5)], False, False),
    ],
)
def test_stragglers_are_no_change(recent: list[Iteration], calm: bool, expected: bool) -> None:
    assert changed(recent, calm=calm) is expected
