"""The benchmark of how soon a change is noticed, with few jobs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import period_changes as changes
from benchmarks import period_changes_told as told
from benchmarks.period_changes import Kind

pytestmark = [pytest.mark.unit, pytest.mark.slow]

JITTER = changes.DIRTS["jitter"]


def test_jobs_that_change_are_noticed() -> None:
    tried = ((Kind.COMPUTING, 1.5), (Kind.BYTES, 1.0))
    found = [changes.followed(JITTER, seed, tried) for seed in range(3)]
    assert all(one.known and not one.early for one in found)
    assert all(one.delays[0] is not None and 0 < one.delays[0] <= 3 for one in found)
    assert all(one.delays[1] is None for one in found), "nothing changed"
    assert found[0] == changes.followed(JITTER, 0, tried)


@pytest.mark.parametrize("kind", Kind)
def test_every_change_changes_something(kind: Kind) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        shape = changes.any_shape(rng)
        assert float(shape.waits.sum() + shape.lengths.sum()) == pytest.approx(1)
        then = changes.resized(shape, kind, 1.5)
        took = then.period_s * float(then.waits.sum() + then.lengths.sum())
        assert took > 1.1 * changes.PERIOD_S
        assert then.bytes == pytest.approx(shape.bytes * (1 if kind == Kind.COMPUTING else 1.5))


def test_who_is_told_the_starts_knows_at_once() -> None:
    shape = changes.any_shape(np.random.default_rng([4000, 1]))
    for kind in Kind:
        assert told.delay(shape, changes.resized(shape, kind, 1.5), JITTER, 1) == 1
        assert told.delay(shape, shape, JITTER, 1) is None
