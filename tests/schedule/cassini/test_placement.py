"""Algorithm 2: the compatible placement first, loops rejected."""

from __future__ import annotations

import itertools

import pytest

from hostcc.schedule.cassini import placement
from hostcc.schedule.cassini.circle import Pattern
from hostcc.schedule.cassini.placement import Candidate
from hostcc.schedule.errors import ViewError

pytestmark = pytest.mark.unit

JOBS = {
    "half": Pattern("half", 1.0, ((0.0, 0.5, 1.0),)),
    "half2": Pattern("half2", 1.0, ((0.0, 0.5, 1.0),)),
    "most": Pattern("most", 1.0, ((0.0, 0.8, 1.0),)),
    "odd": Pattern("odd", 0.9, ((0.0, 0.7, 1.0),)),
}
LINKS = {"x": 1.0, "y": 1.0}
GOOD = Candidate("good", {"x": ["half", "half2"], "y": ["most"]})
BAD = Candidate("bad", {"x": ["half", "most"], "y": ["half2"]})
WORSE = Candidate("worse", {"x": ["odd", "most"], "y": ["half"]})
APART = Candidate("apart", {"x": ["half"], "y": ["most"]})
LOOP = Candidate("loop", {"x": ["half", "half2"], "y": ["half2", "half"]})


def test_the_compatible_candidate_is_first_whatever_the_order() -> None:
    ranked = placement.rank([GOOD, BAD, WORSE, LOOP], JOBS, LINKS)
    assert [one.name for one in ranked] == ["good", "bad", "worse", "loop"]
    for order in itertools.permutations([LOOP, WORSE, BAD, GOOD]):
        assert placement.rank(order, JOBS, LINKS) == ranked
    best = ranked[0]
    assert best.score == pytest.approx(1.0)
    assert best.shifts == pytest.approx({"half": 0.0, "half2": 0.5, "most": 0.0})
    assert ranked[1].score == pytest.approx(0.7)
    assert ranked[1].worst == pytest.approx(0.7)
    assert (ranked[3].rejected, ranked[3].shifts) == ("loop", {})


def test_a_candidate_without_shared_links_is_perfect() -> None:
    (only,) = placement.rank([APART], JOBS, LINKS)
    assert (only.score, only.worst, only.links) == (1.0, 1.0, {})
    assert only.shifts == {"half": 0.0, "most": 0.0}


def test_the_score_is_the_mean_over_shared_links() -> None:
    both = Candidate("both", {"x": ["half", "most"], "y": ["half2", "most"]})
    (only,) = placement.rank([both], JOBS, LINKS)
    assert only.links == pytest.approx({"x": 0.7, "y": 0.7})
    assert only.score == pytest.approx(0.7)


def test_periods_without_a_common_multiple_are_rejected() -> None:
    jobs = {
        name: Pattern(name, period, ((0.0, 0.1, 1.0),))
        for name, period in (("a", 1.0), ("b", 3.14159), ("c", 2.71828))
    }
    (only,) = placement.rank([Candidate("c", {"x": ["a", "b", "c"]})], jobs, LINKS, tolerance=0.0)
    assert only.rejected == "periods"


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ([Candidate("c", {"z": ["half"]})], "known links"),
        ([Candidate("c", {"x": ["nobody"]})], "known jobs"),
        ([GOOD, GOOD], "each name once"),
    ],
)
def test_what_is_not_known_is_refused(candidates: list[Candidate], words: str) -> None:
    with pytest.raises(ViewError, match=words):
        placement.rank(candidates, JOBS, LINKS)


def test_no_candidates() -> None:
    assert placement.rank([], JOBS, LINKS) == ()
