"""Which way flows went, and when they had settled."""

from __future__ import annotations

import pytest

from hostcc.lab.flowreport import flow_results, settled_results
from hostcc.lab.segments import Segment, settled_s, ways

pytestmark = pytest.mark.unit

A, B = "198.18.0.2", "198.18.1.2"


def segment(spine: int, first: float, last: float, port: int = 40000, dscp: int = 0) -> Segment:
    return Segment(A, B, 5000, port, spine, dscp, 1000, first, last)


def test_flows_that_never_move_are_settled_at_once() -> None:
    assert settled_s([segment(1, 10.5, 20)], {5000: 1}, 10) == 0


def test_a_move_ends_with_the_first_packet_of_the_new_way_or_the_last_of_the_old() -> None:
    moved = [segment(1, 10.5, 12.0), segment(2, 12.25, 20, port=50001)]
    assert settled_s(moved, {5000: 1}, 10) == pytest.approx(2.25)
    back = [segment(1, 5, 20), segment(2, 7, 13)]
    assert settled_s(back, {5000: 1}, 10) == pytest.approx(3)


def test_what_changed_before_does_not_count() -> None:
    old = [segment(1, 1, 2), segment(2, 2.5, 20)]
    assert settled_s(old, {5000: 1}, 10) == 0


def test_a_new_mark_is_a_change_too() -> None:
    marked = [segment(1, 10.1, 11), segment(1, 11.5, 20, dscp=40)]
    assert settled_s(marked, {5000: 1}, 10) == pytest.approx(1.5)


def test_a_flow_that_stands_still_is_not_settled_but_others_traffic_is_passed_over() -> None:
    assert settled_s([segment(1, 1, 9)], {5000: 1}, 10) is None
    assert settled_s([segment(1, 1, 9)], {}, 10) == 0


def test_ways_are_those_used_last() -> None:
    three = [segment(1, 1, 5), segment(2, 5, 9, 41000, 40), segment(3, 1, 9.1, 42000)]
    assert ways(three, 2) == ((2, 3), (0, 40))


def test_the_report_names_jobs_hosts_and_what_happened() -> None:
    first = (segment(1, 100.1, 101),)
    last = (segment(1, 100.1, 102), segment(2, 102.5, 110, 50001, 40))
    (flow,) = flow_results(last, 100, {A: "h1", B: "h3"}, {5000: ("a", 1)})
    assert (flow.job, flow.src, flow.dst) == ("a", "h1", "h3")
    assert (flow.spines, flow.dscp) == ([2], [40])
    assert [way.spine for way in flow.ways] == [1, 2]
    assert flow.ways[1].first_s == pytest.approx(2.5)
    begun, hit = settled_results(
        [(101.0, first), (110.0, last)], 100, [(0.0, "a begins"), (1.5, "x")], {5000: 1},
        {5000: 111.0},
    )  # fmt: skip
    assert begun.seconds == 0
    assert hit.seconds == pytest.approx(1.0)
    (ended,) = settled_results([(110.0, first)], 100, [(3.0, "x")], {5000: 1}, {5000: 102.0})
    assert ended.seconds == 0
