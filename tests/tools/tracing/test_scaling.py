"""F as the tracing script shows it is F as the kernel applies it."""

from __future__ import annotations

import msgspec
import pytest

from hostcc.daemon.jobs.views import STANCES
from hostcc.mltcp.params import Shape
from hostcc.mltcp.shape import Q10, f_table_q10
from tools.tracing.scaling import LEARNING, Progress, bytes_ratio, progress_of, scale
from tools.tracing.socket_jobs import Parameters

pytestmark = pytest.mark.unit

PLAIN = Parameters("mltcp", "job", "linear", 1.75, 0.25, 1.0, 1.0)


def test_ratio() -> None:
    assert bytes_ratio(Progress(5, 0)) == 0.0
    assert bytes_ratio(Progress(5, 10)) == 0.5
    assert bytes_ratio(Progress(50, 10)) == 1.0


@pytest.mark.parametrize("weight", [0.5, 1.0, 4.0])
def test_f_is_that_of_the_kernels_table(weight: float) -> None:
    parameters = msgspec.structs.replace(PLAIN, weight=weight)
    table = f_table_q10(Shape(), weight, 33) / Q10
    for index, value in enumerate(table):
        assert scale(parameters, index / 32, "scaled") == pytest.approx(value, abs=1e-3)


def test_f_is_one_where_nothing_is_scaled() -> None:
    assert LEARNING in STANCES
    assert scale(PLAIN, 0.5, LEARNING) == 1.0
    assert scale(msgspec.structs.replace(PLAIN, mode="off"), 0.5, "scaled") == 1.0
    static = msgspec.structs.replace(PLAIN, mode="static", static_weight=3.0)
    assert scale(static, None, LEARNING) == 3.0
    assert scale(PLAIN, None, "scaled") is None


def test_of_a_job_that_is_not_one_way_the_weight_counts() -> None:
    hostcc = msgspec.structs.replace(PLAIN, variant="hostcc", plain_weight=2.0)
    assert scale(hostcc, 0.5, "scaled", "two-way") == 2.0
    assert scale(hostcc, 0.5, "scaled", "unknown") == 1.0
    assert scale(hostcc, 0.5, "scaled", "one-way") == scale(PLAIN, 0.5, "scaled")
    assert scale(hostcc, 0.5, "scaled", "one-way", bursts=True) == 2.0
    assert scale(hostcc, 0.5, "scaled", "unknown", bursts=True) == 1.0
    cubic = msgspec.structs.replace(hostcc, variant="cubic")
    assert scale(cubic, 0.5, "scaled", "two-way") == scale(PLAIN, 0.5, "scaled")
    assert scale(cubic, 0.5, "scaled", bursts=True) == scale(PLAIN, 0.5, "scaled")


def test_whose_progress_counts() -> None:
    job, flow = Progress(1, 2), Progress(3, 4)
    assert progress_of("job", job, flow) == job
    assert progress_of("flow", job, flow) == flow
    assert progress_of("flow", job, None) is None
