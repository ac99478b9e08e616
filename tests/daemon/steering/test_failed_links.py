"""Links that seem to have failed."""

from __future__ import annotations

import pytest

from hostcc.daemon.steering.failed_links import FAILED_LINK_S, all_links, failed_links
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.model import Path, PathTable
from hostcc.paths.packets import UDP, Target

pytestmark = pytest.mark.unit
HERE, THERE = "198.18.1.1", "198.18.2.1"


def known(*spines: str) -> TargetPaths:
    one = TargetPaths(Target(HERE, THERE, UDP))
    one.take(table(*spines), 1.0, 100.0, "")
    return one


def table(*spines: str) -> PathTable:
    paths = (Path(name, (f"{HERE}>", f">{name}", f">{THERE}"), (50000,)) for name in spines)
    return PathTable(HERE, THERE, tuple(paths))


def test_a_missed_link_counts_for_a_time() -> None:
    one = known("left", "right")
    assert failed_links([one], [], 100.0) == frozenset()
    one.take(table("right"), 1.0, 110.0, "")
    assert failed_links([one], [], 110.0 + FAILED_LINK_S) == {">left"}
    assert failed_links([one], [], 111.0 + FAILED_LINK_S) == frozenset()
    assert all_links([one]) == {f"{HERE}>", ">left", ">right", f">{THERE}"}
    one.take(table("left", "right"), 1.0, 112.0, "")
    assert failed_links([one], [], 112.0) == frozenset()


def test_what_all_paths_have_in_common_has_not_failed() -> None:
    assert failed_links([], [(known("left", "right"), "left")], 100.0) == {">left"}
    assert failed_links([], [(known("left"), "left"), (None, "left")], 100.0) == frozenset()
