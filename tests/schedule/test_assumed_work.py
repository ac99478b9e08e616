"""W where hosts do not measure it: blind hosts, blind jobs, hosts that overstate."""

from __future__ import annotations

import math

import pytest

from hostcc.schedule.assumed_work import (
    ASSUMED_COMPUTING_S,
    ASSUMED_GPUS,
    ASSUMED_HOST_FLOP_PER_S,
    ASSUMED_UTILISATION,
    BY_GPUS,
    EQUAL,
    MAX_TIMES_MEDIAN,
    MEAN,
    completed,
    job_work,
)
from tests.schedule.views import job, one_link

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


@pytest.mark.parametrize("rates", [[1e15, 3e15], [1e15, 3e15, 2e15], [2e15, 0.0, 0.0]])
def test_where_gpus_are_known_their_rates_count(rates: list[float]) -> None:
    work, how = job_work([0.0] * len(rates), 0.5, 1.0, rates)
    assert work == pytest.approx(len(rates) * 2e15 * 0.5)
    assert how == BY_GPUS


def test_measured_work_counts_more_than_rates() -> None:
    assert job_work([1e12, 0.0], 0.5, 1.0, [0.0, 5e15]) == (2e12, MEAN)
    assert job_work([1e12, 2e12], 0.5, 1.0, [5e15, 5e15]) == (3e12, "")


@pytest.mark.parametrize("lie", [1e18, math.inf, math.nan, -1.0])
def test_a_host_that_overstates_its_rate_has_a_bounded_effect(lie: float) -> None:
    work, _ = job_work([0.0] * 3, 1.0, 1.0, [1e15, 1e15, lie])
    assert 0 < work <= (2 + MAX_TIMES_MEDIAN) * 1e15


def test_a_host_of_unknown_gpus_is_like_eight_a100() -> None:
    alike = ASSUMED_GPUS * ASSUMED_UTILISATION * 312e12
    assert pytest.approx(alike, rel=0.01) == ASSUMED_HOST_FLOP_PER_S


def test_without_times_weights_count_still() -> None:
    assert job_work([0.0], 0.0) == (ASSUMED_HOST_FLOP_PER_S * ASSUMED_COMPUTING_S, EQUAL)


def test_a_view_is_completed_as_by_agents() -> None:
    jobs = [
        job("a", work=3.0),
        job("b", work=0.0),
        job("c", work=0.0, assumed_flop_per_s=4e14),
    ]
    view = completed(one_link(jobs, [1.0, 1.0, 1.0]))
    assert [(one.work, one.assumed) for one in view.jobs] == [
        (3.0, ""),
        (2 * ASSUMED_HOST_FLOP_PER_S, EQUAL),
        (pytest.approx(4e14), BY_GPUS),
    ]
    assert completed(view) == view


def test_no_hosts_are_one_blind_host() -> None:
    assert job_work([], 0.1, 0.2) == job_work([0.0], 0.1, 0.2)
