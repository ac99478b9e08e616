"""Turns across hosts: never two that share something at once, and everybody's comes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.coord.core.payloads import ProfilingClaim
from hostcc.daemon.profiling.turns.claims import Claim, ClaimSnapshot, with_own
from hostcc.daemon.profiling.turns.local import Candidate, Turns, step, tie_break_hash, waiting
from hostcc.daemon.profiling.turns.turn_order import GRACE_S, SETTLE_S, Place, Stage, follow, others

pytestmark = pytest.mark.unit

LONGEST = 30.0
A, B = sorted(("a", "b"), key=tie_break_hash)
"""In the order of their lots."""
HERE = frozenset({"h"})


def stages(claims: dict[str, Claim]) -> dict[str, Stage]:
    return {job: place.stage for job, place in follow({}, claims, 0.0, LONGEST).items()}


def test_of_those_who_share_a_place_the_lot_decides() -> None:
    shared = {job: Claim(places=frozenset({"h", job})) for job in (A, B)}
    assert stages(shared) == {A: Stage.NEXT, B: Stage.BEHIND}
    apart = {job: Claim(places=frozenset({job})) for job in (A, B)}
    assert stages(apart) == {A: Stage.NEXT, B: Stage.NEXT}


def test_whose_turn_it_is_goes_on_and_who_had_none_goes_before_who_had_one() -> None:
    waits = Claim(places=HERE)
    assert stages({A: waits, B: Claim(turn=True, places=HERE)})[A] is Stage.BEHIND
    assert stages({A: Claim(again=True, places=HERE), B: waits})[A] is Stage.BEHIND
    both = Claim(turn=True, places=HERE)
    assert stages({A: both, B: both}) == {A: Stage.TURN, B: Stage.BEHIND}


def test_the_next_one_waits_until_what_is_under_way_is_heard() -> None:
    claims = {A: Claim(places=HERE)}
    places = follow({}, claims, 10.0, LONGEST)
    assert others(places, 10.0, LONGEST).behind == {A}
    assert (
        others(follow(places, claims, 10.0 + SETTLE_S, LONGEST), 10.0 + SETTLE_S, LONGEST).behind
        == set()
    )


def test_a_turn_elsewhere_is_the_same_turn() -> None:
    claims = {A: Claim(turn=True, places=HERE)}
    places = follow(follow({}, claims, 10.0, LONGEST), claims, 20.0, LONGEST)
    heed = others(places, 20.0, LONGEST)
    assert (heed.since, heed.behind) == ({A: 10.0}, frozenset())
    jobs = {A: Candidate(sending=True, confidence=0.0, changes=0)}
    turns = step(Turns(), 20.0, jobs, LONGEST, heed)
    assert (turns.job, turns.since_s) == (A, 10.0)
    assert step(turns, 10.0 + LONGEST, jobs, LONGEST, heed).job == ""
    assert step(Turns(), 10.0 + LONGEST, jobs, LONGEST, heed).job == ""


@pytest.mark.parametrize(
    ("turn", "due_s"), [(True, LONGEST + GRACE_S), (False, SETTLE_S + GRACE_S)]
)
def test_who_does_not_act_is_not_waited_for(turn: bool, due_s: float) -> None:
    claims = {A: Claim(turn=turn, places=HERE), B: Claim(places=HERE)}
    places = follow({}, claims, 0.0, LONGEST)
    assert follow(places, claims, due_s, LONGEST)[B].stage is Stage.BEHIND
    late = follow(places, claims, due_s + 0.1, LONGEST)
    assert late[B].stage is Stage.NEXT
    assert A not in others(late, due_s + 0.1, LONGEST).since
    acting = {**claims, A: Claim(turn=not turn, places=HERE)}
    assert follow(late, acting, due_s + 0.2, LONGEST)[B].stage is Stage.BEHIND


def test_nobody_joins_a_turn_of_which_it_does_not_know_how_long_it_has_lasted() -> None:
    claims = {A: Claim(turn=True, places=HERE)}
    places = follow(None, claims, 10.0, LONGEST)
    jobs = {A: Candidate(sending=True, confidence=0.0, changes=0)}
    assert step(Turns(), 10.0, jobs, LONGEST, others(places, 10.0, LONGEST)).job == ""
    over = {A: Claim(places=HERE)}
    later = follow(follow(places, over, 20.0, LONGEST), over, 20.0 + SETTLE_S, LONGEST)
    assert (
        step(Turns(), 20.0 + SETTLE_S, jobs, LONGEST, others(later, 20.0 + SETTLE_S, LONGEST)).job
        == A
    )


def test_who_has_to_give_way_keeps_its_claim_to_a_whole_turn() -> None:
    jobs = {B: Candidate(sending=True, confidence=0.0, changes=0)}
    turns = step(Turns(), 0.0, jobs, LONGEST)
    clash = {job: Claim(turn=True, places=HERE) for job in (A, B)}
    heed = others(follow({}, clash, 1.0, LONGEST), 1.0, LONGEST)
    turns = step(turns, 1.0, jobs, LONGEST, heed)
    assert (turns.job, dict(turns.had)) == ("", {})
    assert waiting(turns, 1.0, jobs, LONGEST) == [B]
    assert step(turns, 40.0, jobs, LONGEST).since_s == 40.0


@dataclass
class Host:
    """One agent: what it measures, what it has told, what it has heard."""

    name: str
    jobs: tuple[str, ...]
    known: dict[str, float]
    """Job -> how long its turn has to be until it is known."""
    turns: Turns = field(default_factory=Turns)
    places: dict[str, Place] | None = None
    taken: dict[str, float] = field(default_factory=dict)

    def candidates(self) -> dict[str, Candidate]:
        return {
            job: Candidate(
                sending=True,
                confidence=float(self.taken.get(job, 0.0) >= self.known[job]),
                changes=0,
            )
            for job in self.jobs
        }

    def told(self, now: float) -> dict[str, ProfilingClaim]:
        names = waiting(self.turns, now, self.candidates(), LONGEST)
        had = self.turns.had
        said = {job: ProfilingClaim(turn=False, again=job in had) for job in names}
        job = self.turns.job
        return {**said, job: ProfilingClaim(turn=True, again=job in had)} if job else said

    def tick(self, now: float, step_s: float, heard: ClaimSnapshot) -> None:
        if self.turns.job:
            self.taken[self.turns.job] = self.taken.get(self.turns.job, 0.0) + step_s
        claims = with_own(heard, self.name, self.told(now), self.jobs)
        self.places = follow(self.places, claims, now, LONGEST)
        heed = others(self.places, now, LONGEST)
        self.turns = step(self.turns, now, self.candidates(), LONGEST, heed)


def spread(
    by_host: dict[str, dict[str, ProfilingClaim]], own: str, places: dict[str, frozenset[str]]
) -> ClaimSnapshot:
    """What is heard of others; every host that has begun says which jobs it has."""
    now = {
        job: frozenset(at for at in of if at in by_host or at.startswith("/"))
        for job, of in places.items()
    }
    found: dict[str, Claim] = {}
    for name, said in by_host.items():
        for job, one in said.items() if name != own else ():
            last = found.get(job, Claim())
            found[job] = Claim(last.turn or one.turn, last.again or one.again, now[job])
    return ClaimSnapshot(found, now)


STEP = 1.0
AT_MOST = int(4 * 3 * (LONGEST + SETTLE_S + GRACE_S) / STEP)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 3), min_size=1, max_size=3),
            st.sets(st.sampled_from(("/x", "/y")), max_size=1),
            st.sampled_from((3.0, 12.0, 1e9)),
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.lists(st.integers(0, 40), min_size=4, max_size=4),
)
def test_never_two_that_share_and_everybody_gets_a_turn(
    layout: list[tuple[set[int], set[str], float]], delays: list[int], begins: list[int]
) -> None:
    """Hosts begin at other times, and each hears the others so many ticks late."""
    names = [f"j{index}" for index in range(len(layout))]
    places = {
        job: frozenset({f"h{one}" for one in at} | links)
        for job, (at, links, _) in zip(names, layout, strict=True)
    }
    known = {job: takes for job, (_, _, takes) in zip(names, layout, strict=True)}
    hosts = [
        Host(f"h{index}", tuple(job for job in names if f"h{index}" in places[job]), known)
        for index in range(4)
    ]
    past: list[dict[str, dict[str, ProfilingClaim]]] = []
    clash = tick = 0
    while tick <= max(begins) or any(past[-1].values()):
        assert tick < AT_MOST, "somebody waits forever"
        now = tick * STEP
        awake = [host for host, begin in zip(hosts, begins, strict=True) if tick >= begin]
        past.append({host.name: host.told(now) for host in awake})
        for host in awake:
            late = delays[int(host.name[1])]
            host.tick(now, STEP, spread(past[max(0, tick - late)], host.name, places))
            assert not host.turns.job or now - host.turns.since_s < LONGEST, "too long a turn"
        going = {host.turns.job for host in hosts} - {""}
        sharing = any(
            one < other and places[one] & places[other] for one in going for other in going
        )
        clash = clash + 1 if sharing and tick > max(begins) else 0
        assert clash <= max(delays) + 1, "two that share something go on together"
        tick += 1
    for host in hosts:
        for job in host.jobs:
            assert min(known[job], 3.0) <= host.taken[job], "somebody has no turn"
