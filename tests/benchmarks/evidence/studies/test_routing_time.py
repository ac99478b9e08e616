"""Computation time of path methods; no time is asserted."""

from __future__ import annotations

import pytest

from benchmarks.evidence import ring_jobs
from tests.benchmarks.evidence.found import quick

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def test_every_method_is_timed_for_every_number_of_flows() -> None:
    found = quick("routing-7").lines
    assert {one.setting for one in found} == {"96 flows", "192 flows"}
    assert len(found) == 2 * len(ring_jobs.METHODS)
    assert all(one.here > 0 for one in found)
