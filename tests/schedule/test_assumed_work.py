"""W where hosts do not measure it: blind hosts, blind jobs, hosts that overstate."""

from __future__ import annotations

import math

import pytest

from hostcc.schedule.assumed_work import (
    ASSUMED_HOST_FLOP_PER_S,
    EQUAL,
    MAX_TIMES_MEDIAN,
    MEAN,
    job_work,
)

pytestmark = pytest.mark.unit


def test_measured_work_is_summed() -> None:
    assert job_work([1e12, 3e12], 0.1, 0.2) == (4e12, "")


def test_a_blind_host_takes_the_mean_of_the_others() -> None:
    assert job_work([1e12, 0.0, 3e12], 0.1, 0.2) == (6e12, MEAN)


def test_where_no_host_knows_all_are_equal() -> None:
    two, how = job_work([0.0, 0.0], 0.1, 0.2)
    assert two == pytest.approx(0.2 * ASSUMED_HOST_FLOP_PER_S)
    assert how == EQUAL
    assert job_work([0.0] * 4, 0.1, 0.2)[0] == pytest.approx(2 * two)


def test_without_a_silence_the_whole_iteration_counts() -> None:
    for computing_s in (0.0, 0.001):
        assert job_work([0.0], computing_s, 0.2)[0] == 0.2 * ASSUMED_HOST_FLOP_PER_S


@pytest.mark.parametrize("lie", [1e15, 1e30, math.inf])
@pytest.mark.parametrize("hosts", [3, 4, 9])
def test_a_host_that_overstates_has_a_bounded_effect(hosts: int, lie: float) -> None:
    honest = [1e12] * (hosts - 1)
    work, _ = job_work([*honest, lie], 0.1, 0.2)
    assert work <= (hosts - 1 + MAX_TIMES_MEDIAN) * 1e12 * (1 + 1e-9)
    blind, _ = job_work([*honest, lie, 0.0], 0.1, 0.2)
    assert blind <= (hosts - 1 + MAX_TIMES_MEDIAN) * 1e12 * (hosts + 1) / hosts * (1 + 1e-9)


@pytest.mark.parametrize("bad", [math.nan, -1.0, -math.inf])
def test_what_is_no_work_counts_as_unknown(bad: float) -> None:
    assert job_work([bad, 2e12], 0.1, 0.2) == (4e12, MEAN)
    assert job_work([bad], 0.1, 0.2)[1] == EQUAL


def test_no_hosts_are_one_blind_host() -> None:
    assert job_work([], 0.1, 0.2) == job_work([0.0], 0.1, 0.2)
