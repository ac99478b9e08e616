"""A window's numbers, by job and by destination."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hostcc.measure.bins import HEADER_SHIFT, payload, payload_both
from hostcc.measure.destinations import DESTINATION, address
from hostcc.measure.meter import MissingData, Window, joined

pytestmark = pytest.mark.unit


def window() -> Window:
    who = np.zeros(5, DESTINATION)
    who["slot"] = [1, 1, 2, 1, 3]
    who["local"] = [False, False, False, True, True]
    who["addr"][:, 15] = [1, 2, 1, 3, 4]
    words = np.zeros((5, 3, 2), np.uint64)
    words[:, :, 0] = [[1, 2, 3], [10, 0, 0], [7, 7, 7], [100, 0, 0], [50, 0, 0]]
    words[0, 1, 1] = 5 | 13 << HEADER_SHIFT
    row, at = np.nonzero(words.any(axis=2))
    # One cell twice, as from two shards.
    row, at = np.append(row, 4), np.append(at, 2)
    cells = words[row, at]
    cells[-1] = (8, 0)
    return Window(1000, 5000, 3, who, row, at, cells, MissingData(bins=2))


def test_by_job() -> None:
    series = window().job(1)
    assert (series.bin_ns, series.start_ns) == (1000, 5000)
    assert series.tx.tolist() == [11, 2, 3]
    assert series.rx.tolist() == [0, 5, 0]
    assert window().job(1, wire=True).rx.tolist() == [0, 57, 0]
    assert window().job(1, local=True).tx.tolist() == [111, 2, 3]
    assert window().job(9).tx.tolist() == [0, 0, 0]


def test_all_jobs_at_once() -> None:
    assert list(window().cells()) == [1, 2]
    assert window().cells()[1].sent.tolist() == [11, 2, 3]
    found = window().cells(local=True)
    assert list(found) == [1, 2, 3]
    for slot, few in found.items():
        series, alone = few.whole(), window().job(slot, local=True)
        assert (series.bin_ns, series.start_ns) == (alone.bin_ns, alone.start_ns)
        assert series.tx.tolist() == alone.tx.tolist()
        assert series.rx.tolist() == alone.rx.tolist()


def test_a_job_that_sent_headers_only_was_seen() -> None:
    who, words = np.zeros(1, DESTINATION), np.full((1, 2), 5 << HEADER_SHIFT, np.uint64)
    who["slot"] = 4
    (place,) = np.zeros((1, 1), np.intp)
    few = Window(1000, 0, 3, who, place, place, words).cells()[4]
    assert (len(few), len(few.at)) == (3, 0)


def test_by_row() -> None:
    assert window().payload()[:, :, 0].tolist() == [
        [1, 2, 3], [10, 0, 0], [7, 7, 7], [100, 0, 0], [50, 0, 8]
    ]  # fmt: skip
    assert window().wire()[0, :, 1].tolist() == [0, 57, 0]


def test_nothing_passed() -> None:
    none = np.zeros(0, np.intp)
    quiet = Window(1000, 0, 4, np.zeros(0, DESTINATION), none, none, np.zeros((0, 2), np.uint64))
    assert quiet.cells() == {}
    assert quiet.job(1).tx.tolist() == [0] * 4
    assert quiet.payload().shape == (0, 4, 2)
    assert len(quiet.totals()[0]) == 0


def test_totals() -> None:
    who, sums = window().totals()
    found = {
        (int(w["slot"]), str(address(w["addr"]))): s.tolist()
        for w, s in zip(who, sums, strict=True)
    }
    assert found == {(1, "::1"): [6, 5], (1, "::2"): [10, 0], (1, "::3"): [100, 0],
                     (2, "::1"): [21, 0], (3, "::4"): [58, 0]}  # fmt: skip


def test_ends() -> None:
    assert len(window()) == 3
    assert window().end_ns == 8000
    assert window().lost
    assert not MissingData(refused=3)


def later(of: Window, bins: int) -> Window:
    return replace(of, start_ns=of.start_ns + bins * of.bin_ns)


def test_windows_that_follow_one_another_are_one() -> None:
    one = replace(window(), lost=MissingData(0, 7, 8, 9, 10))
    other = replace(later(one, 3), lost=MissingData(2, 1, 1, 1, 1))
    both = joined([one, other])
    assert (both.start_ns, both.end_ns, len(both)) == (one.start_ns, other.end_ns, 6)
    assert both.lost == MissingData(2, 8, 9, 10, 11)
    for slot in (1, 2, 3):
        parts = [each.job(slot, local=True) for each in (one, other)]
        assert both.job(slot, local=True).tx.tolist() == [*parts[0].tx, *parts[1].tx]
        assert both.job(slot, local=True).rx.tolist() == [*parts[0].rx, *parts[1].rx]
    who, sums = both.totals()
    assert who.tobytes() == one.totals()[0].tobytes()
    assert sums.tolist() == (2 * one.totals()[1]).tolist()
    assert joined([one]).payload().tolist() == one.payload().tolist()


def test_windows_with_a_gap_are_not_joined() -> None:
    with pytest.raises(ValueError, match="expected bins from 8000 ns on, got bins from 9000"):
        joined([window(), later(window(), 4)])


def test_a_part_of_the_rows() -> None:
    rows = np.array([True, False, True, False, True])
    few = window().only(rows)
    assert few.who.tobytes() == window().who[rows].tobytes()
    assert few.payload().tolist() == window().payload()[rows].tolist()
    assert (len(few), few.start_ns, few.lost) == (3, 5000, MissingData(bins=2))
    assert window().only(np.zeros(5, np.bool_)).payload().shape == (0, 3, 2)


def test_bytes_of_both_directions() -> None:
    cells = window().words
    assert payload_both(cells).tolist() == payload(cells).sum(axis=1).tolist()
