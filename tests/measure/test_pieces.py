"""The fewest steps, beside all the ways that there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.measure.pieces import NEVER, Costs, pieced

pytestmark = pytest.mark.unit

STEP = 0.25
FEW = st.lists(st.sampled_from([0.0, 0.2, 0.4, 1.0]), min_size=1, max_size=4)


def everything(number: int, costs: Costs) -> None:
    """Hides no piece."""


def fewest(values: list[float], pieces: list[float], inserted: float = 0.1) -> list[float]:
    """Steps that one stretch takes, up to each of its values."""
    of = np.array(values, np.float32)[:, None], np.array(pieces, np.float32)
    return [one.item() for one in pieced(*of, STEP, inserted, everything)]


def cost(way: tuple[int, ...], values: list[float], pieces: list[float], inserted: float) -> float:
    """Of taking these pieces for the values; -1 is anything else."""
    total, pausing = 0.0, False
    for number, (piece, value) in enumerate(zip(way, values, strict=True)):
        before = way[number - 1] if number else None
        still = number > 0 and piece == before
        if piece < 0:
            # Also for the first value, which can be any piece for nothing.
            total += inserted + (not still)
            pausing = False
            continue
        goes_on = before is None or (before >= 0 and piece == before + 1)
        total += min(1.0, (value - pieces[piece]) ** 2 / STEP) + (
            0 if goes_on or (still and pausing) else 1
        )
        pausing = still
    return total


@settings(max_examples=80, deadline=None)
@given(FEW, FEW, st.sampled_from([0.1, 0.6]))
def test_as_the_best_of_all_ways(values: list[float], pieces: list[float], inserted: float) -> None:
    ways: Iterator[tuple[int, ...]] = product(range(-1, len(pieces)), repeat=len(values))
    least = min(cost(way, values, pieces, inserted) for way in ways)
    assert fewest(values, pieces, inserted)[-1] == pytest.approx(least, abs=1e-5)


def test_a_piece_goes_on_pauses_and_is_left() -> None:
    pieces = [0.0, 0.0, 1.0, 5.0]
    assert fewest([0.0, 0.0, 1.0, 5.0], pieces) == pytest.approx([0, 0, 0, 0])
    assert fewest([0.0, 1.0, 1.0, 1.0, 5.0], pieces) == pytest.approx([0, 0, 1, 1, 1])
    assert fewest([0.0, 1.0, 0.0, 1.0], pieces) == pytest.approx([0, 0, 1, 1])
    assert fewest([9.0, 9.0, 9.0], pieces) == pytest.approx([1, 1.2, 1.3])


def test_stretches_are_put_together_each_by_itself() -> None:
    values = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [5.0, 1.0]], np.float32)
    pieces = np.array([0.0, 0.0, 1.0, 5.0], np.float32)
    both = np.array(list(pieced(values, pieces, STEP, 0.1, everything)))
    for number in range(2):
        alone = fewest(values[:, number].tolist(), pieces.tolist())
        assert both[:, number].tolist() == pytest.approx(alone)


def test_a_piece_that_is_hidden_is_not_taken() -> None:
    values = np.array([[0.0, 0.0], [1.0, 1.0]], np.float32)

    def hide(number: int, costs: Costs) -> None:
        assert costs.shape == (2, 3)
        costs[1, 1 + number :] = NEVER

    pieces = np.array([9.0, 0.0, 1.0], np.float32)
    found = list(pieced(values, pieces, STEP, 0.1, hide))
    assert found[-1].tolist() == pytest.approx([0, 1.2])
