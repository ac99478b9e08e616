"""The routing paper's all-reduce."""

from __future__ import annotations

import pytest

from benchmarks.evidence.studies import routing_jobs
from tests.benchmarks.evidence.found import line, quick, unmet

pytestmark = pytest.mark.unit


def test_without_failures_hostcc_is_at_the_closed_form_and_greedy_ahead() -> None:
    assert unmet("routing-4-6") == []
    bars = {one.bar for one in quick("routing-4-6").lines if one.met}
    assert bars == {"closed form to 1e-9", "ahead of annealing and ECMP"}


@pytest.mark.slow
def test_with_failures_hostcc_is_at_the_optimum_where_paths_are_kept() -> None:
    where = "jobs_2/ring_2, 1 failed"
    assert unmet("routing-8") == [
        (where, f"all-reduce, {routing_jobs.SUBJECT}"),
        ("mean of the sets, 1 failed", "all-reduce, greedy"),
    ]
    once = line("routing-8", where, "all-reduce, ILP chosen once for all jobs")
    assert once.here == pytest.approx(2.0)
    assert line("routing-8", where, "all-reduce, ILP").here < once.here
