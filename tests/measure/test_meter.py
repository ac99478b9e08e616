"""A window's numbers, by job and by destination."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.measure.bins import HEADER_SHIFT
from hostcc.measure.destinations import DESTINATION, address
from hostcc.measure.meter import Lost, Window

pytestmark = pytest.mark.unit


def window() -> Window:
    who = np.zeros(4, DESTINATION)
    who["slot"] = [1, 1, 2, 1]
    who["local"] = [False, False, False, True]
    who["addr"][:, 15] = [1, 2, 1, 3]
    words = np.zeros((4, 3, 2), np.uint64)
    words[:, :, 0] = [[1, 2, 3], [10, 0, 0], [7, 7, 7], [100, 0, 0]]
    words[0, 1, 1] = 5 | 13 << HEADER_SHIFT
    return Window(1000, 5000, who, words, Lost(bins=2))


def test_by_job() -> None:
    series = window().job(1)
    assert (series.bin_ns, series.start_ns) == (1000, 5000)
    assert series.tx.tolist() == [11, 2, 3]
    assert series.rx.tolist() == [0, 5, 0]
    assert window().job(1, wire=True).rx.tolist() == [0, 57, 0]
    assert window().job(1, local=True).tx.tolist() == [111, 2, 3]
    assert window().job(9).tx.tolist() == [0, 0, 0]


def test_totals() -> None:
    who, sums = window().totals()
    found = {
        (int(w["slot"]), str(address(w["addr"]))): s.tolist()
        for w, s in zip(who, sums, strict=True)
    }
    assert found == {(1, "::1"): [6, 5], (1, "::2"): [10, 0], (1, "::3"): [100, 0],
                     (2, "::1"): [21, 0]}  # fmt: skip


def test_ends() -> None:
    assert len(window()) == 3
    assert window().end_ns == 8000
    assert window().lost
    assert not Lost(refused=3)
