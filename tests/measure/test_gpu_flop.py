"""Peaks, counters and shares: from what NVML tells to FLOP."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure.gpu import counters
from hostcc.measure.gpu.attribution import shares
from hostcc.measure.gpu.flop import flop_of
from hostcc.measure.gpu.peaks import known_capability, peak
from hostcc.measure.gpu.readings import Gpu, Pipe, Reading, Source

pytestmark = pytest.mark.unit

H100 = Gpu("GPU-0", "H100", (9, 0), 132, 1980e6)
ANY = st.floats() | st.none()


@pytest.mark.parametrize(
    ("capability", "sms", "clock", "pipe", "data_sheet"),
    [
        ((7, 0), 80, 1.53e9, Pipe.TENSOR, 125e12),
        ((7, 5), 40, 1.59e9, Pipe.TENSOR, 65e12),
        ((8, 0), 108, 1.41e9, Pipe.TENSOR, 312e12),
        ((8, 0), 108, 1.41e9, Pipe.TENSOR64, 19.5e12),
        ((8, 0), 108, 1.41e9, Pipe.FP32, 19.5e12),
        ((8, 0), 108, 1.41e9, Pipe.FP64, 9.7e12),
        ((8, 0), 108, 1.41e9, Pipe.FP16, 78e12),
        ((8, 9), 142, 2.52e9, Pipe.TENSOR, 362e12),
        ((9, 0), 132, 1.83e9, Pipe.TENSOR, 989e12),
        ((9, 0), 132, 1.98e9, Pipe.TENSOR64, 67e12),
        ((9, 0), 132, 1.98e9, Pipe.FP32, 67e12),
        ((9, 0), 132, 1.98e9, Pipe.FP64, 34e12),
        ((10, 0), 148, 1.85e9, Pipe.TENSOR, 2.25e15),
    ],
)
def test_peaks_are_those_of_the_data_sheets(
    capability: tuple[int, int], sms: int, clock: float, pipe: Pipe, data_sheet: float
) -> None:
    assert peak(capability, sms, clock, pipe) == pytest.approx(data_sheet, rel=0.03)


def test_peaks_that_are_not_known() -> None:
    assert peak(None, 132, 1e9, Pipe.FP32) is None
    assert peak((9, 0), None, 1e9, Pipe.FP32) is None
    assert peak((9, 0), 132, None, Pipe.FP32) is None
    assert peak((9, 0), 132, 1e12, Pipe.FP32) is None
    assert peak((9, 0), 1e6, 1e9, Pipe.FP32) is None
    assert peak((9, 0), math.nan, 1e9, Pipe.FP32) is None
    assert peak((3, 5), 15, 1e9, Pipe.FP32) is None
    assert peak((6, 1), 28, 1e9, Pipe.TENSOR) == 0
    assert known_capability((9, 9)) == (9, 0)
    assert known_capability((8, 7)) == (8, 6)


def test_counters_to_pipes() -> None:
    half = counters.pipes_of({counters.ANY_TENSOR: 0.8, counters.HMMA_TENSOR: 0.8})
    assert half == {Pipe.TENSOR: 0.8}
    mixed = counters.pipes_of(
        {counters.ANY_TENSOR: 0.75, counters.HMMA_TENSOR: 0.25, counters.DMMA_TENSOR: 0.5}
    )
    assert mixed == {Pipe.TENSOR: 0.25, Pipe.TENSOR64: 0.5}
    eight_bits = counters.pipes_of({counters.ANY_TENSOR: 0.5, counters.HMMA_TENSOR: 0.0})
    assert eight_bits == {Pipe.TENSOR: 0.5}
    assert counters.pipes_of({}) == {}
    assert counters.shares_of({2: 150.0, 5: -1.0, 7: math.nan}) == {2: 1.0, 5: 0.0}


def test_work_by_counters_and_by_utilisation() -> None:
    busy = Reading(H100, 1.0, 3.0, 1.5e9, pipes={Pipe.TENSOR: 0.9, Pipe.FP32: 0.1})
    work, source = flop_of(busy)
    assert source is Source.COUNTERS
    assert work == pytest.approx(2 * 132 * 1.5e9 * (0.9 * 4096 + 0.1 * 256))
    coarse, source = flop_of(Reading(H100, 1.0, 3.0, 1.5e9, utilisation=0.5))
    assert source is Source.UTILISATION
    assert coarse == pytest.approx(132 * 1.5e9 * 4096)
    no_clock, _ = flop_of(Reading(H100, 1.0, 3.0, None, utilisation=0.5))
    assert no_clock == pytest.approx(132 * 1.98e9 * 4096)


@given(
    st.tuples(st.integers(-1, 20), st.integers(-1, 9)) | st.none(),
    ANY,
    ANY,
    st.floats(),
    st.floats(),
    st.dictionaries(st.sampled_from(Pipe), st.floats()),
    ANY,
)
def test_work_is_bounded_or_unknown(
    capability: tuple[int, int] | None,
    sms: float | None,
    clock: float | None,
    start: float,
    end: float,
    pipes: dict[Pipe, float],
    utilisation: float | None,
) -> None:
    reading = Reading(
        Gpu("x", None, capability, sms, clock), start, end, clock, None, pipes, utilisation
    )
    work, source = flop_of(reading)
    assert (work is None) is (source is Source.UNKNOWN)
    if work is not None:
        assert 0 <= work <= (end - start) * 4096 * 10e9 * 5 * 8192


def test_shares() -> None:
    assert shares((1, 2), {1: 60, 2: 20}, {1: "a", 2: "b"}) == {"a": 0.75, "b": 0.25}
    assert shares((1, 2), None, {1: "a", 2: "b"}) == {"a": 0.5, "b": 0.5}
    assert shares((1, 2), {1: 0, 2: 0}, {1: "a", 2: "a"}) == {"a": 1.0}
    assert shares((1, 2), {1: 30, 2: 10}, {2: "b"}) == {"b": 0.25}  # 1 is nobody's
    assert shares((1, 2), {1: 30}, {1: "a", 2: "b"}) == {"a": 1.0, "b": 0.0}
    assert shares((2,), {1: 30, 2: 30}, {1: "a", 2: "b"}) == {"a": 0.5, "b": 0.5}  # 1 has ended
    assert shares((), None, {1: "a"}) == {}
    rounded = {0: 3.1425454158104612e16, 1: 5.005163250898363e16, 2: 3.1425454158104596e16}
    assert shares((), rounded, dict.fromkeys(rounded, "a")) == {"a": 1.0}
    assert shares((), {1: 9e307, 2: 9e307, 3: 9e307}, {1: "a", 2: "a"}) == {
        "a": pytest.approx(2 / 3)
    }


@given(
    st.lists(st.integers(0, 9)),
    st.none() | st.dictionaries(st.integers(0, 9), st.floats()),
    st.dictionaries(st.integers(0, 9), st.sampled_from("abc")),
)
def test_shares_never_exceed_the_whole(
    pids: list[int], use: dict[int, float] | None, owners: dict[int, str]
) -> None:
    parts = shares(pids, use, owners)
    assert all(0 <= part <= 1 for part in parts.values())
    assert sum(parts.values()) <= 1 + 1e-9
    assert set(parts) <= set(owners.values())
