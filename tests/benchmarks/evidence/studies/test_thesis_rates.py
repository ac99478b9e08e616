"""Table 3.1 in the rate model."""

from __future__ import annotations

import pytest

from benchmarks.evidence.thesis_jobs import thesis, timers_us
from tests.benchmarks.evidence.found import quick

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def test_every_figure_of_the_table_is_beside_one_of_the_model() -> None:
    lines = quick("thesis-t3.1-dcqcn").lines
    for row in thesis().rows:
        times = [one for one in lines if one.setting == row.name and one.figure.endswith("ms")]
        assert [one.published for one in times] == [*row.fair_ms, *row.unfair_ms]
        alone = [thesis().shape(job).iteration_s * 1e3 for job in row.jobs]
        for one, least in zip(times, alone * 2, strict=True):
            assert 0.99 * least <= one.here <= 3 * least
            assert one.kind == "predicted"


def test_the_gain_of_the_row_with_the_greatest() -> None:
    (gain,) = (
        one
        for one in quick("thesis-t3.1-dcqcn").lines
        if one.setting == "DLRM + DLRM" and one.figure.startswith("fair over unfair")
    )
    assert gain.published == pytest.approx(1.29, abs=0.01)
    assert gain.here > 1.05
    assert gain.bar == "no loss"


def test_timers_go_with_the_order() -> None:
    rows = {row.name: timers_us(row) for row in thesis().rows}
    assert rows["DLRM + DLRM"] == [100, 125]
    assert rows["WideResNet101 + VGG16"] == [125, 100]
    assert rows["VGG19 + VGG16(1700) + ResNet50"] == [125, 100, 80]
