"""Period and bytes of generated jobs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import synthetic
from hostcc.daemon.profiling.turns.local import ENOUGH
from hostcc.measure import period
from hostcc.measure.series import ByteSeries, empty, part, rebinned, series
from hostcc.measure.silences import Rhythm

pytestmark = [pytest.mark.unit, pytest.mark.slow]

CLEAN = [name for name, (clean, _) in synthetic.PERIODIC.items() if clean]
DIRTY = [name for name, (clean, _) in synthetic.PERIODIC.items() if not clean]
SEEDS = 25


def share_within(name: str, tolerance: float) -> tuple[float, float]:
    """Of 25 series of a class, those with the period and those with the bytes right."""
    right = [0, 0]
    for seed in range(SEEDS):
        sample = synthetic.PERIODIC[name][1](np.random.default_rng([7, seed]))
        found = period.detect(sample.series)
        assert sample.period_s
        assert sample.iteration_bytes
        if found.period_s and found.bytes_per_iteration:
            right[0] += abs(found.period_s / sample.period_s - 1) <= tolerance
            right[1] += abs(found.bytes_per_iteration / sample.iteration_bytes - 1) <= tolerance
    return right[0] / SEEDS, right[1] / SEEDS


@pytest.mark.parametrize("name", CLEAN)
def test_clean_series_within_a_hundredth(name: str) -> None:
    periods, sizes = share_within(name, 0.01)
    assert periods >= 0.95
    assert sizes >= 0.9


@pytest.mark.parametrize("name", DIRTY)
def test_dirty_series_within_a_twentieth(name: str) -> None:
    periods, sizes = share_within(name, 0.05)
    assert periods >= 0.84
    assert sizes >= 0.8


def test_who_is_sure_is_right() -> None:
    """A confidence with which a profile counts as known: nearly all are, and some have it."""
    sure = right = 0
    for name in DIRTY:
        for seed in range(SEEDS):
            sample = synthetic.PERIODIC[name][1](np.random.default_rng([8, seed]))
            found = period.detect(sample.series)
            if found.confidence >= ENOUGH:
                assert found.period_s
                assert sample.period_s
                sure += 1
                right += abs(found.period_s / sample.period_s - 1) <= 0.05
    assert sure >= 0.6 * len(DIRTY) * SEEDS
    assert right >= 0.95 * sure


@pytest.mark.parametrize("name", synthetic.APERIODIC)
def test_what_has_no_period_gets_no_number(name: str) -> None:
    wrong = 0
    for seed in range(SEEDS):
        sample = synthetic.APERIODIC[name](np.random.default_rng([7, seed]))
        found = period.detect(sample.series)
        wrong += found.periodic
        assert (found.period_s is None) == (not found.periodic)
        assert found.reason
        assert found.confidence < ENOUGH
        if not found.periodic:
            assert found.confidence == 0.0
    assert wrong <= 2


def regular(
    bins: int, count: int, *, high: int = 1000, share: float = 0.4, bin_ns: int = 1_000_000
) -> ByteSeries:
    """A burst of so many bins at the end of every `bins`."""
    pattern = np.where(np.arange(bins) >= bins * (1 - share), high, 0)
    return series(np.tile(pattern, count), None, bin_ns)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(10, 90),
    st.integers(10, 16),
    st.floats(0.15, 0.7),
    st.integers(1, 10**9),
    st.integers(0, 89),
)
def test_any_regular_job(bins: int, count: int, share: float, high: int, lead: int) -> None:
    made = part(regular(bins, count + 1, high=high, share=share), lead % bins)
    found = period.detect(made)
    assert found.periodic, found.reason
    assert found.period_s == pytest.approx(bins / 1000, rel=0.01)
    busy = int((np.arange(bins) >= bins * (1 - share)).sum())
    assert found.bytes_per_iteration == pytest.approx(busy * high, rel=0.01)
    assert found.background_bytes_per_s == pytest.approx(0, abs=high)
    assert 0.5 < found.confidence <= 1.0


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 12), st.integers(0, 2**40))
def test_scale_and_units_do_not_matter(factor: int, start: int) -> None:
    made = synthetic.PERIODIC["stragglers 10 %"][1](np.random.default_rng(factor)).series
    found = period.detect(made)
    more = dataclasses.replace(made, tx=made.tx * factor, rx=made.rx * factor, start_ns=start)
    again = period.detect(dataclasses.replace(more, bin_ns=made.bin_ns * factor))
    assert found.periodic
    assert found.period_s
    assert found.bytes_per_iteration
    assert again.period_s == pytest.approx(found.period_s * factor)
    assert again.bytes_per_iteration == pytest.approx(found.bytes_per_iteration * factor)


def test_the_same_series_gives_the_same_answer() -> None:
    made = synthetic.PERIODIC["all of these"][1](np.random.default_rng(3)).series
    assert repr(period.detect(made)) == repr(period.detect(made))


def test_a_minute_in_bins_of_a_millisecond() -> None:
    """Ten iterations of a minute: 600,000 bins; and the same in coarser bins."""
    made = regular(60_000, 10, share=0.2)
    for one in (made, rebinned(made, 50)):
        assert period.detect(one).period_s == pytest.approx(60, rel=0.001)


def test_few_iterations_are_not_enough() -> None:
    assert period.detect(regular(40, 10)).periodic
    few = period.detect(regular(40, 3))
    assert not few.periodic


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (empty(1_000_000), "no traffic"),
        (series(np.zeros(500), None, 10), "no traffic"),
        (series(np.full(500, 7), None, 10), "constant rate"),
        (series([0, 5, 0, 5, 0], None, 10), "only 5 bins"),
        (series([0] * 200 + [9] + [0] * 200, None, 10), "often enough"),
    ],
)
def test_reasons(made: ByteSeries, reason: str) -> None:
    found = period.detect(made)
    assert not found.periodic
    assert reason in found.reason


def test_a_ripple_on_a_steady_transfer_is_no_iteration() -> None:
    ripple = np.tile(np.where(np.arange(40) < 20, 1000, 940), 30)
    found = period.detect(series(ripple, None, 1_000_000))
    assert not found.periodic
    assert "steady transfer" in found.reason


def test_background_is_not_in_the_bytes() -> None:
    made = regular(50, 12)
    found = period.detect(dataclasses.replace(made, rx=made.rx + 100))
    assert found.bytes_per_iteration == pytest.approx(20 * 1000, rel=0.01)
    assert found.background_bytes_per_s == pytest.approx(100e3, rel=0.01)


def test_late_iterations_do_not_lengthen_the_period() -> None:
    piece = np.where(np.arange(50) >= 30, 1000, 0)
    late = np.concatenate((np.zeros(35, dtype=np.int64), piece))
    made = series(np.concatenate([late if k in (4, 11) else piece for k in range(18)]), None, 1000)
    found = period.detect(made)
    assert found.period_s == pytest.approx(50e-6, rel=0.005)
    assert found.mean_period_s
    assert found.mean_period_s > 52e-6


def test_how_likely_a_mean_is_right() -> None:
    assert period.within(0.05, 0.0) == 1.0
    assert period.within(0.05, 0.05) == pytest.approx(0.683, abs=0.001)
    assert period.within(0.05, 1.0) < 0.05


def test_how_likely_a_period_is() -> None:
    heard = Rhythm(np.arange(0.0, 500.0, 50.0), 50.0, 0.9)
    assert period.supported(51.0, heard) == 0.9
    assert period.supported(100.0, heard) == -0.9
    assert -1 < period.supported(100.0, None) < 0.9
    assert period.likely(1.0, 0.9) > 0.99
    assert period.likely(0.3, 0.9) > period.MIN_PROBABILITY
    assert period.likely(0.3, period.NO_RHYTHM_SUPPORT) < period.MIN_PROBABILITY
    assert period.likely(0.6, -0.9) < 0.1


def test_the_surer_of_two_measurements_counts_more() -> None:
    one, other = period.IterationBytes(100.0, 3.0, 0.01), period.IterationBytes(110.0, 1.0, 0.1)
    both = period.weighted(one, other)
    assert both.amount == pytest.approx(100.1, abs=0.05)
    assert one.error < both.error < other.error
    assert period.weighted(other, one) == pytest.approx(both)
    assert period.weighted(one, period.IterationBytes(110.0, 1.0, 0.01)).amount == pytest.approx(
        105
    )


@given(
    st.lists(st.floats(0, 1e9), min_size=1, max_size=20),
    st.lists(st.floats(-3, 25), max_size=9),
)
def test_bytes_before_a_place_are_interpolated(sums: list[float], edges: list[float]) -> None:
    found = period.between(np.array(sums), np.array(edges))
    assert found.tolist() == np.interp(edges, np.arange(len(sums)), sums).tolist()
