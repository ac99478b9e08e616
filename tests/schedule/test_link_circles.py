"""The circles of a link's jobs: scores, collisions, and who waits for whom."""

from __future__ import annotations

import pytest

from hostcc.answers.links import LinkJob, LinkRow
from hostcc.schedule.link_circles import LinkCircle, judged, link_circle, waits
from hostcc.schedule.link_rows import list_links
from hostcc.schedule.plan import solve
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit


def on_link(name: str, level: int, period: float, time: float, share: float = 1.0) -> LinkJob:
    return LinkJob(name, level, time * share / period, period, period - time, time, share)


def row(*jobs: LinkJob, full: bool = True) -> LinkRow:
    load = sum(one.load for one in jobs)
    return LinkRow(link="l", capacity=1e9, load=load, full=full, jobs=len(jobs), sharing=jobs)


def circle(of: LinkRow) -> LinkCircle:
    found = link_circle(of)
    assert isinstance(found, LinkCircle)
    return found


def test_two_halves_fit_if_one_is_turned() -> None:
    found = circle(row(on_link("a", 0, 1.0, 0.5), on_link("b", 1, 1.0, 0.5)))
    assert found.score == pytest.approx(1.0)
    assert found.together == pytest.approx(0.5)
    assert found.collisions == ((0.5, 1.0),)
    assert found.left == ()
    assert [one.up for one in found.jobs] == [((0.5, 1.0),), ((0.5, 1.0),)]
    assert abs(found.jobs[0].shift - found.jobs[1].shift) == pytest.approx(0.5)


def test_a_job_that_turns_twice_has_two_arcs() -> None:
    found = circle(row(on_link("a", 0, 2.0, 0.5), on_link("b", 0, 1.0, 0.25)))
    assert found.perimeter_s == pytest.approx(2.0)
    assert [one.turns for one in found.jobs] == [1, 2]
    assert found.jobs[1].up == ((0.375, 0.5), (0.875, 1.0))


def test_what_cannot_fit_scores_below_one_and_still_collides() -> None:
    found = circle(row(on_link("a", 0, 1.0, 0.75), on_link("b", 0, 1.0, 0.75)))
    assert found.score == pytest.approx(0.5)
    (arc,) = found.left
    assert arc[1] - arc[0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ([on_link("a", 0, 1.0, 0.5)], "one job"),
        ([on_link("a", 0, 1.0, 0.5), LinkJob("b", 0, 0.1)], "unknown"),
        ([on_link("a", 0, 1.0, 0.5), on_link("b", 0, 100.3, 0.5)], "common multiple"),
        ([on_link(f"j{at}", 0, 1.0, 0.1) for at in range(17)], "more than 16 jobs"),
    ],
)
def test_why_there_is_no_circle(jobs: list[LinkJob], why: str) -> None:
    told = judged(row(*jobs))
    assert told.score is None
    assert why in told.reason


def test_who_waits_for_whom() -> None:
    told = waits(row(on_link("a", 0, 1.0, 0.5), on_link("b", 2, 1.0, 0.5), on_link("c", 2, 1, 0.5)))
    assert [(one.job, one.lets_pass, one.shares_with) for one in told] == [
        ("b", ("a",), ("c",)),
        ("c", ("a",), ("b",)),
    ]
    assert waits(row(on_link("a", 0, 1.0, 0.5), full=False)) == ()


def test_slow_jobs_wait_only_for_those_that_leave_them_no_room() -> None:
    small = on_link("small", 3, 1.0, 0.5, 0.25)
    told = waits(row(on_link("a", 0, 1.0, 0.5), on_link("b", 1, 1.0, 0.5, 0.5), small))
    assert [(one.job, one.lets_pass) for one in told] == [("b", ("a",)), ("small", ("a",))]
    thirds = [on_link(name, at, 1.0, 0.5, 0.4) for at, name in enumerate("abc")]
    assert [one.lets_pass for one in waits(row(*thirds))] == [("a",), ("a", "b")]


def test_of_a_plan() -> None:
    view = one_link([job("a", compute=3.0), job("b", compute=1.0)], [1.0, 1.0])
    (link,) = list_links(solve(view), "d", 10).links
    named = {one.job: one for one in link.sharing}
    assert named["a"].period_s == 4.0
    assert (named["b"].start_s, named["b"].communication_s, named["b"].share) == (1.0, 1.0, 1.0)
    found = circle(link)
    assert {one.job: one.turns for one in found.jobs} == {"a": 1, "b": 2}
    assert found.together == pytest.approx(0.75)
