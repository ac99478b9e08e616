"""Two VGG19, and two jobs on a circle."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.evidence.studies.thesis_pair import BIN_S, Pair
from benchmarks.evidence.thesis_jobs import Shape, thesis
from tests.benchmarks.evidence.found import line, quick, unmet

pytestmark = pytest.mark.unit
RATE = "first iteration, Gbit/s"


def test_fair_jobs_get_half_of_the_usable_link_each() -> None:
    for job in ("J1", "J2"):
        assert line("thesis-3.1", "fluid, T 125 us", f"{job}, {RATE}").here == pytest.approx(21)
        model = line("thesis-3.1", "DCQCN model, T 125 us", f"{job}, {RATE}").here
        assert model == pytest.approx(21, rel=0.1)


def test_the_eager_job_goes_first() -> None:
    for how in ("fluid", "DCQCN model"):
        first = line("thesis-3.2", how, f"J1, {RATE}").here
        assert first > line("thesis-3.2", how, "J2, while J1 sends, Gbit/s").here
    assert line("thesis-3.2", "fluid", f"J1, {RATE}").here == pytest.approx(28)


def test_figures_draw_rates_over_time() -> None:
    """Fair: both at half of the link. Unfair: the eager one above."""
    shape = thesis().shape("vgg19-pair")
    window = slice(round(shape.compute_s / BIN_S) + 2, round(shape.iteration_s / BIN_S) - 2)
    for name, panel, least in (
        ("thesis-3.1", "DCQCN model, rates", 0.9),
        ("thesis-3.2", "DCQCN model, rates, unfair", 1.05),
    ):
        first, second = (one for one in quick(name).curves if one.panel == panel)
        assert (first.label, second.label, first.y_label) == ("J1", "J2", "Gbit/s")
        means = [sum(one.y[window]) / len(one.y[window]) for one in (first, second)]
        assert means[0] / means[1] > least
        assert sum(means) == pytest.approx(thesis().link.gbit, rel=0.1)
        assert max(first.y[: window.start - 4]) == 0.0


def test_shifted_jobs_are_as_alone() -> None:
    assert unmet("thesis-4.2") == []


def test_the_circle() -> None:
    assert unmet("thesis-4.5") == []
    assert line("thesis-4.5", "40 and 60 ms", "rotation, degrees").here == pytest.approx(30)


def test_rates_and_the_first_iteration_apart() -> None:
    shape = Shape(1.0, 0.5, 30.0)
    pair = Pair(np.array([1.0, 1.2, 1.0, 1.0]), np.array([1.25, 1.0, 1.0, 1.0]))
    assert pair.rates(shape) == pytest.approx((30.0, 15.0))
    assert pair.apart(shape) == 3
    assert Pair(np.array([1.0]), np.array([1.0])).apart(shape) == 1
    assert Pair(np.array([1.2]), np.array([1.2])).apart(shape) == 0
