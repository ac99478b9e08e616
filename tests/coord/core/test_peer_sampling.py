"""Whom to talk to: few for long, everybody in time, and never only those that matter."""

from __future__ import annotations

from random import Random

import pytest

from hostcc.coord.core.membership import Membership
from hostcc.coord.core.peer_sampling import PeerSample
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store
from tests.coord.records import accusation, held, member

pytestmark = pytest.mark.unit

OTHERS = [f"h{number}" for number in range(200)]


def sampled(others: list[str], settings: Settings | None = None) -> tuple[Membership, PeerSample]:
    settings = settings or Settings()
    members = Membership("me", Store(settings), settings, Random(1))
    members.adopt(list(others))
    return members, PeerSample(members, settings, Random(2))


def test_few_for_long_and_everybody_in_time() -> None:
    _, few = sampled(OTHERS, Settings(sample_change_s=1.0))
    met: set[str] = set()
    for second in range(5000):
        few.refresh(float(second))
        now = {peer for _ in range(20) for peer in few.pick(3, ())}
        assert len(now) <= Settings().sample_size
        met |= now
        if second < 60:
            assert len(met) <= Settings().sample_size + 60
    assert len(met) == len(OTHERS)


def test_all_of_a_small_cluster() -> None:
    _, few = sampled(OTHERS[:10])
    few.refresh(0.0)
    assert {peer for _ in range(100) for peer in few.pick(3, ())} == set(OTHERS[:10])


def test_the_dead_leave_it_at_once() -> None:
    store = Store(Settings())
    members = Membership("me", store, Settings(), Random(1))
    for name in ("a", "b", "c"):
        store.put(held(member(name)), 0.0)
        members.update_member(name, new=True)
    few = PeerSample(members, Settings(), Random(2))
    few.refresh(0.0)
    for accuser in ("b", "c"):
        store.put(held(accusation(accuser, "a")), 0.0)
    members.tick(0.0)
    members.tick(1000.0)
    assert members.is_dead("a")
    assert few.has_peers(("a",))
    few.refresh(0.1)
    few.neighbours = ("a", "b")
    assert {peer for _ in range(50) for peer in few.pick(3, ())} == {"b", "c"}
    assert {few.pick_any(()) for _ in range(50)} == {"b", "c"}


def test_contacts_until_somebody_is_known() -> None:
    _, few = sampled([])
    few.refresh(0.0)
    assert few.pick(3, ()) == []
    assert few.pick_any(()) == ""
    assert few.pick(3, ("seed",)) == ["seed"]
    assert few.pick_any(("seed",)) == "seed"


def test_one_of_those_that_matter_hears_of_news_but_stores_are_compared_with_all() -> None:
    _, few = sampled(OTHERS)
    few.refresh(0.0)
    few.neighbours = ("h0", "h1")
    assert all({"h0", "h1"} & set(few.pick(3, ())) for _ in range(50))
    compared = [few.pick_any(()) for _ in range(400)]
    matter = sum(peer in few.neighbours for peer in compared)
    assert 100 < matter < 300
    assert len(set(compared)) > 100


def test_somebody_is_picked_when_there_is_anybody() -> None:
    for others, contacts in ((OTHERS[:2], ()), ([], ("c",)), ([], ())):
        _, one = sampled(others)
        one.refresh(0.0)
        assert one.has_peers(contacts) == bool(one.pick(1, contacts)) == bool(others or contacts)
