"""The default order beside Crux's."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.schedule import baseline_orders, methods, order
from hostcc.schedule.intensity import crossings
from hostcc.schedule.job_pairs import pairs
from hostcc.schedule.order import MIN_GAIN, losses
from hostcc.schedule.paths import crux, moves
from hostcc.schedule.paths.throughput import under_order
from tests.schedule.paths import problems

pytestmark = pytest.mark.unit


def test_beyond_a_light_load_the_order_is_cruxs_or_predicted_to_gain() -> None:
    kept = 0
    for seed in range(12):
        made = problems.random_problem(seed, 1.5)
        routing = crux.crux(made)
        found, met = crossings(made, routing), pairs(made, routing)
        jobs = methods.isolated_times(made, routing)
        assert methods.mean_load(made, found, jobs) > moves.LIGHT_LOAD
        usual = baseline_orders.crux(made, routing)
        chosen = methods.by_losses(made, found, made.work, met)
        if np.array_equal(chosen.rank, usual):
            kept += 1
            continue
        waiting, lost = found.contended(made.job_count), losses(jobs, met)
        before, after = (
            under_order(jobs, made.work / jobs.period, waiting, lost, rank)
            for rank in (usual, chosen.rank)
        )
        assert after > before * (1 + MIN_GAIN)
    assert 0 < kept < 12


def test_very_many_jobs_have_an_order_without_cruxs_correction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = problems.random_problem(0, 1.5)
    monkeypatch.setattr(order, "MAX_CORRECTED_JOBS", made.job_count - 1)
    monkeypatch.setattr(order, "MIN_GAIN", 1e9)
    assert np.array_equal(
        methods.ORDERS["hostcc"](made, crux.crux(made)),
        baseline_orders.by_intensity(made, crux.crux(made)),
    )
