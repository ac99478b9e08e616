"""Rounds are made while there is something to do, and seldom while there is not."""

from __future__ import annotations

import pytest

from benchmarks.gossip_world import World
from hostcc.coord.core.message import ViewReport
from hostcc.coord.core.node import Node
from hostcc.coord.core.payloads import Profile
from hostcc.coord.core.settings import Settings
from tests.coord.records import deliver, node, rounds

pytestmark = pytest.mark.unit

WORK = Profile(1.0, 0.5, 1e12, 8.0)
ROUND_S, REST_S = Settings().round_s, Settings().rest_s


def calm() -> tuple[dict[str, Node], list[str], float]:
    """Two that have told each other everything; who had something to say since; and when."""
    said: list[str] = []
    nodes = {name: node(name, on_pending=lambda name=name: said.append(name)) for name in "ab"}  # type: ignore[misc]
    nodes["b"].add_contact("a")
    now = rounds(nodes, 100)
    while any(one.rest_s() == ROUND_S for one in nodes.values()):
        now = rounds(nodes, 1, now)
    said.clear()
    return nodes, said, now


def test_what_is_said_makes_a_round_due() -> None:
    nodes, said, _ = calm()
    assert nodes["a"].rest_s() > ROUND_S
    nodes["a"].publish("profile", "job", WORK)
    assert said == ["a"]
    assert nodes["a"].rest_s() == ROUND_S
    nodes["a"].publish("profile", "job", WORK)  # the same again
    assert said == ["a"]


def test_a_report_of_the_view_makes_a_round_due() -> None:
    nodes, said, _ = calm()
    nodes["a"].report_view(ViewReport("view"), ["b"])
    assert said == ["a"]
    assert nodes["a"].rest_s() == ROUND_S


def test_nobody_to_tell_is_no_reason_for_rounds() -> None:
    nodes, _, now = calm()
    one = nodes["a"]
    while not one.members.is_dead("b"):  # it is silent from now on
        now += one.rest_s()
        one.tick(now)
    for _ in range(10):
        now += one.rest_s()
        one.tick(now)
    one.publish("profile", "job", WORK)
    assert one.rest_s() > ROUND_S
    rounds(nodes, 100, now)  # it is back
    assert not one.members.is_dead("b")
    slot = ("profile", "job")
    assert nodes["b"].store.get("a", slot) == one.store.get("a", slot) is not None


def test_the_first_member_of_all_rests() -> None:
    one = node("a")
    now = 0.0
    for _ in range(200):
        now += one.rest_s()
        one.tick(now)
    one.publish("profile", "job", WORK)
    assert one.rest_s() > ROUND_S


def test_what_is_heard_makes_a_round_due_where_it_is_new() -> None:
    nodes, said, now = calm()
    nodes["a"].publish("profile", "job", WORK)
    deliver(nodes, "a", nodes["a"].tick(now + ROUND_S), now + ROUND_S)
    assert said == ["a", "b"]
    assert nodes["b"].rest_s() == ROUND_S


def test_an_answer_that_is_waited_for_is_asked_for_every_round() -> None:
    nodes, _, now = calm()
    answered = []
    for _ in range(20):
        now += nodes["a"].rest_s()
        said = nodes["a"].tick(now)
        if any(one.payload.pings for one in said):
            assert nodes["a"].rest_s() == ROUND_S
            deliver(nodes, "a", said, now)
            answered.append(nodes["a"].rest_s())
        else:
            deliver(nodes, "a", said, now)
    assert max(answered) > 2 * ROUND_S


def test_to_rest_is_no_absence_and_to_stay_away_is() -> None:
    nodes, _, now = calm()
    one = nodes["a"]
    for _ in range(30):
        now += one.rest_s()
        before = one.health.score
        deliver(nodes, "a", one.tick(now), now)
        assert one.health.score <= before
    now += one.rest_s() + 3 * ROUND_S
    one.tick(now)
    assert one.health.score > 0


def test_deadlines_are_lived_through_while_resting() -> None:
    nodes, _, now = calm()
    one = nodes["a"]
    began, lived = now, one.experienced_s(now)
    for _ in range(30):
        now += one.rest_s()
        deliver(nodes, "a", one.tick(now), now)
    assert one.experienced_s(now) - lived == pytest.approx(now - began)
    assert one.experienced_s(now + 1000) - lived < now - began + REST_S + 2 * ROUND_S
    # While there is something to do, no more than two rounds count.
    now += 1000
    one.tick(now)
    one.publish("profile", "job", WORK)
    began, lived = now, one.experienced_s(now)
    assert one.rest_s() == ROUND_S
    assert one.experienced_s(now + 1000) - lived == pytest.approx(2 * ROUND_S)


def test_few_rounds_where_nothing_happens_and_news_travel_at_once() -> None:
    world = World(1)
    for index in range(8):
        world.add(f"n{index}").add_contact("n0")
    world.run(30)
    rests = [host.due - host.ticked for host in world.hosts.values()]
    assert sum(rests) / len(rests) > 2 * ROUND_S
    world.hosts["n3"].node.publish("profile", "job", WORK)
    world.run(3 * ROUND_S)
    assert all(h.node.store.get("n3", ("profile", "job")) for h in world.hosts.values())
