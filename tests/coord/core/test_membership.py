"""From accusation to death and back."""

from __future__ import annotations

from random import Random

import pytest

from hostcc.coord.core.membership import Membership, State
from hostcc.coord.core.message import Record
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import PutResult, Store
from tests.coord.records import accusation, held, member

pytestmark = pytest.mark.unit

SETTINGS = Settings(suspect_s=1.0, suspect_factor=6.0, confirmations=3, forget_s=50.0)


class Known:
    """A store and the membership that follows from it, of h0 among h0 to h9."""

    def __init__(self, count: int = 10) -> None:
        self.store = Store(SETTINGS)
        self.members = Membership("h0", self.store, SETTINGS, Random(1))
        for index in range(count):
            self.put(member(f"h{index}"))

    def put(self, record: Record) -> None:
        new = self.store.get(record.writer, (record.kind, record.key)) is None
        assert self.store.put(held(record), 0.0) is PutResult.NEW
        if record.kind == "member":
            self.members.update_member(record.writer, new=new)

    def died_at(self, subject: str, until: float = 20.0) -> float | None:
        now = 0.0
        while now < until:
            self.members.tick(now)
            if self.members.is_dead(subject):
                return now
            now += 0.1
        return None


def test_everybody_else_is_in_turn() -> None:
    known = Known()
    assert sorted(known.members.others) == [f"h{index}" for index in range(1, 10)]
    assert known.members.count == 10


def test_more_accusers_make_it_shorter() -> None:
    times = []
    for accusers in range(5):
        known = Known()
        for index in range(accusers):
            known.put(accusation(f"h{index + 2}", "h1"))
        times.append(known.died_at("h1"))
    assert times[0] is None
    waits = [time for time in times if time is not None]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] == pytest.approx(6.0, abs=0.11)
    assert waits[3] == pytest.approx(1.0, abs=0.11)


def test_of_two_the_other_decides_alone() -> None:
    known = Known(2)
    known.put(accusation("h0", "h1"))
    assert known.died_at("h1") == pytest.approx(1.0, abs=0.11)


def test_a_refutation_in_time() -> None:
    known = Known()
    known.put(accusation("h2", "h1"))
    known.members.tick(0.0)
    assert known.members.state("h1") is State.SUSPECT
    known.put(member("h1", 2, 7))
    assert known.members.state("h1") is State.ALIVE
    assert known.died_at("h1") is None


def test_a_dead_member_lives_again_with_its_next_incarnation() -> None:
    known = Known()
    known.put(accusation("h2", "h1"))
    known.died_at("h1")
    assert "h1" not in known.members.others
    assert known.members.count == 9
    known.put(member("h1", 2, 7))
    assert known.members.state("h1") is State.ALIVE
    assert "h1" in known.members.others


def test_an_accusation_of_an_incarnation_to_come_waits_for_it() -> None:
    known = Known()
    known.put(accusation("h2", "h1", accused=2))
    assert known.died_at("h1") is None
    known.put(member("h1", 2, 7))
    assert known.died_at("h1") is not None


def test_an_accuser_that_lost_its_memory_no_longer_counts() -> None:
    known = Known()
    known.put(accusation("h2", "h1"))
    known.members.tick(0.0)
    known.put(member("h2", 5, 1, birth=5))
    assert known.died_at("h1") is None


def test_a_death_that_nobody_attests_is_found() -> None:
    known = Known()
    known.put(accusation("h2", "h1"))
    known.died_at("h1")
    assert known.members.unfounded() == []
    known.put(member("h2", 5, 1, birth=5))
    assert known.members.unfounded() == ["h1"]


def test_the_dead_are_forgotten() -> None:
    known = Known()
    known.put(accusation("h2", "h1"))
    died = known.died_at("h1")
    assert died is not None
    assert known.members.tick(died + 49) == []
    assert known.members.tick(died + 50) == ["h1"]
    assert known.members.dead() == []


def test_accusations_of_oneself_are_not_ones_own_business() -> None:
    known = Known()
    known.put(accusation("h2", "h0"))
    assert known.died_at("h0") is None
