"""Who gets how much of what there is little of."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.daemon.jobs.slots import Slots
from hostcc.errors import HostccError
from hostcc.system.quota import Owner, Quota, Refused, admit, in_turns

pytestmark = pytest.mark.unit

OWNERS: st.SearchStrategy[Owner] = st.none() | st.integers(0, 5)
CLAIMS = st.lists(OWNERS, max_size=60)
HELD = st.dictionaries(OWNERS, st.integers(1, 6), max_size=4)


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    total = draw(st.integers(1, 30))
    return Quota(total, draw(st.integers(1, total)), draw(st.integers(0, total)))


@given(CLAIMS, HELD, quotas())
def test_nobody_gets_more_than_the_quota(
    owners: list[Owner], held: dict[Owner, int], quota: Quota
) -> None:
    claims = list(enumerate(owners))
    got = admit(claims, held, quota)
    has = Counter(held) + Counter(owners[number] for number in got.admitted)
    for owner, count in has.items():
        if owner is not None and count > quota.per_uid:
            assert count == held[owner]
    others = sum(count for owner, count in has.items() if owner is not None)
    had = sum(count for owner, count in held.items() if owner is not None)
    assert others <= max(had, quota.total - quota.for_root)
    assert sum(has.values()) <= max(sum(held.values()), quota.total)
    assert len(set(got.admitted)) == len(got.admitted)
    assert len(got.admitted) + sum(one.claims for one in got.refused) == len(claims)


@given(CLAIMS, CLAIMS, quotas())
def test_root_is_not_refused_for_others(
    crowd: list[Owner], more: list[Owner], quota: Quota
) -> None:
    others = [(number, owner) for number, owner in enumerate(crowd) if owner is not None]
    had: Counter[Owner] = Counter(
        dict(others)[number] for number in admit(others, {}, quota).admitted
    )
    held: dict[Owner, int] = dict(had.items())
    for number in range(quota.for_root):
        assert quota.refusal(None, held) == ""
        held[None] = number + 1


@given(CLAIMS, quotas())
def test_what_is_left_is_given(owners: list[Owner], quota: Quota) -> None:
    got = admit(list(enumerate(owners)), {}, quota)
    has: Counter[Owner] = Counter(owners[number] for number in got.admitted)
    for refused in got.refused:
        owner = None if None in owners and refused.uid == 0 and 0 not in owners else refused.uid
        assert quota.refusal(owner, has) or quota.refusal(None, has)


def test_a_crowd_leaves_room_and_is_named() -> None:
    crowd = [(f"c{number}", 7) for number in range(2000)]
    got = admit([*crowd, ("other", 8)], {}, Quota())
    assert got.admitted[:2] == ("c0", "other")
    assert len(got.admitted) == 65
    why = "uid 7 has 64, the most for one user (agent.per_uid)"
    assert got.refused == (Refused(7, 1936, why),)
    several = [(str(number), number % 100 + 1) for number in range(10_000)]
    got = admit([*several, ("root", None)], {}, Quota())
    assert len(got.admitted) == 1023 - 128 + 1
    assert {one.why for one in got.refused} == {"the last 128 are for root (agent.for_root)"}
    full: dict[Owner, int] = dict.fromkeys(range(1, 1 + 895), 1)
    full[None] = 128
    assert Quota().refusal(None, full) == "all 1023 are in use"


@given(CLAIMS)
def test_turns(owners: list[Owner]) -> None:
    claims = list(enumerate(owners))
    turns = in_turns(claims)
    assert sorted(turns) == sorted(claims)
    for owner in set(owners):
        own = [claim for claim in turns if claim[1] == owner]
        assert own == [claim for claim in claims if claim[1] == owner]
    seen: Counter[Owner] = Counter()
    for _, owner in turns:
        if owner is not None:
            behind = [other for other in set(owners) - {None} if seen[other] < seen[owner]]
            assert all(seen[other] == owners.count(other) for other in behind)
        else:
            assert not seen.keys() - {None}
        seen[owner] += 1


def test_slots_go_round_and_to_root() -> None:
    slots = Slots(Quota(total=5, per_uid=2, for_root=2))
    assert [slots.take(7), slots.take(7), slots.take(8)] == [1, 2, 3]
    with pytest.raises(HostccError, match="no job slot on this host: uid 7 has 2"):
        slots.take(7)
    slots.give_back(1)
    assert slots.take(7) == 4
    with pytest.raises(HostccError, match="the last 2 are for root"):
        slots.take(9)
    slots.to_root(4)
    assert (slots.owner(4), slots.held) == (None, {7: 1, 8: 1, None: 1})
    assert slots.take(7, had=True) == 5
    assert slots.take(None) == 1
    with pytest.raises(HostccError, match="all 5 are in use"):
        slots.take(None)
