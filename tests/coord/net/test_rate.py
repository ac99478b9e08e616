"""Limits: averages, bursts, strikes, and how often the log hears of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.net import rate
from hostcc.coord.net.rate import FATAL_STRIKES, Offenders, PeerLimits, TokenBucket
from hostcc.coord.net.transport_settings import TransportSettings
from hostcc.log import Logger

pytestmark = pytest.mark.unit


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 20)), max_size=60),
    st.floats(0.1, 50),
    st.floats(1, 50),
)
def test_a_bucket_never_gives_more_than_rate_and_burst(
    steps: list[tuple[float, float]], per_s: float, burst: float
) -> None:
    bucket = TokenBucket(per_s, burst)
    now = taken = 0.0
    for pause, amount in steps:
        now += pause
        if bucket.take(amount, now):
            taken += amount
        assert taken <= burst + per_s * now + 1e-6
    assert bucket.wait(now) >= 0


def test_a_clock_that_steps_back_gives_nothing() -> None:
    bucket = TokenBucket(1.0, 2.0)
    assert bucket.take(2, 100.0)
    assert not bucket.take(1, 50.0)
    assert not bucket.take(1, 100.5)
    assert bucket.take(1, 101.5)


def test_peers_have_their_own_allowance() -> None:
    allowances = PeerLimits(TransportSettings(messages_burst=2, messages_per_s=1))
    assert [allowances.take("a", 1, 0.0) for _ in range(3)] == [True, True, False]
    assert allowances.take("b", 1, 0.0)
    assert allowances.take("a", 1, 1.0)
    assert not allowances.take("c", 10**9, 0.0)


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.fields: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.fields.append(vars(record)["fields"])


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def offenders(lines: Lines) -> Iterator[Offenders]:
    logger = logging.getLogger("tests.coord.rate")
    logger.addHandler(lines)
    yield Offenders(Logger(logger))
    logger.removeHandler(lines)


def test_once_a_minute_with_the_count(offenders: Offenders, lines: Lines) -> None:
    for second in range(130):
        offenders.note("a", "why", float(second), 0.0)
    assert [field["count"] for field in lines.fields] == [1, 60, 60]
    assert offenders.total == 130


def test_who_goes_on_is_shut_out_for_a_while(offenders: Offenders, lines: Lines) -> None:
    outs = [offenders.note("a", "why", 0.0) for _ in range(30)]
    assert outs.index(True) == rate.STRIKES_PER_MINUTE
    assert outs.count(True) == 1
    assert offenders.shut_out("a", 1.0)
    assert not offenders.shut_out("b", 1.0)
    assert not offenders.shut_out("a", rate.SHUT_OUT_S)
    assert offenders.note("b", "worse", 0.0, FATAL_STRIKES)


def test_slow_offences_are_only_counted(offenders: Offenders) -> None:
    assert not any(offenders.note("a", "why", 10.0 * number) for number in range(100))


def test_many_offenders_bound_memory_and_lines(offenders: Offenders, lines: Lines) -> None:
    for number in range(3 * rate.MAX_TRACKED_PEERS):
        offenders.note(f"address {number}", "why", number / 1000)
    assert len(offenders._known) == rate.MAX_TRACKED_PEERS
    assert len(lines.fields) <= rate.LINES_PER_MINUTE * 1.5
