"""The benchmark of how soon a change is noticed, with few jobs."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.bench import period_changes as changes

pytestmark = pytest.mark.unit


def test_jobs_that_change_are_noticed() -> None:
    found = changes.measure("1.2 to 2 times the computation", "jitter 0.5 %", 4)
    assert found.jobs == 4
    assert found.early + found.noticed <= 4
    assert found.noticed >= 3
    assert found.soon >= found.noticed - 1
    assert len(found.delays) == found.noticed
    assert all(delay > 0 for delay in found.delays)
    assert changes.measure("1.2 to 2 times the computation", "jitter 0.5 %", 1) == changes.measure(
        "1.2 to 2 times the computation", "jitter 0.5 %", 1
    )


@pytest.mark.parametrize("kind", changes.KINDS)
def test_every_change_changes_something(kind: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        shape = changes.any_shape(rng)
        assert float(shape.waits.sum() + shape.lengths.sum()) == pytest.approx(1)
        then = changes.KINDS[kind](shape, rng)
        took = (
            then.period_s * (then.waits.sum() + then.lengths.sum()),
            then.bytes,
        )
        before = (shape.period_s, shape.bytes)
        assert max(abs(a / b - 1) for a, b in zip(took, before, strict=True)) > 0.02
