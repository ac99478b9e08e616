"""The goal of probing: all paths, or nearly always."""

from __future__ import annotations

import pytest

from benchmarks.probe_paths import Figures, _goal

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("found", "met"),
    [([4], True), ([3], False), ([3, 3], False), ([4, 4, 3], True), ([4, 3, 3], False)],
)
def test_one_search_in_a_hundred_may_miss_a_path(found: list[int], met: bool) -> None:
    runs = [Figures(paths, 10, 8, 40, 0, 0.1) for paths in found]
    verdict = _goal((4, "ipv4", "tcp"), runs)
    assert verdict.met == met
    assert verdict.passing == found.count(4)
