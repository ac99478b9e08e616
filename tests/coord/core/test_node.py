"""Members that talk: joining, restarting, being slow, being accused, being lied to."""

from __future__ import annotations

from random import Random

import pytest

from hostcc.coord.core.message import COUNTER_MAX, MAX_RECORDS, Message, Probe, Record
from hostcc.coord.core.node import Node
from hostcc.coord.core.payloads import Profile
from hostcc.coord.core.record_checker import RecordChecker
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.signing import SimulatedSigner, SimulatedVerifier
from tests.coord.records import accusation, member, node, profile, record, rounds, saying

pytestmark = pytest.mark.unit

WORK = Profile(1.0, 0.5, 1e12, 8.0)


def cluster(*names: str, settings: Settings | None = None) -> dict[str, Node]:
    nodes = {name: node(name, settings) for name in names}
    for name in names[1:]:
        nodes[name].add_contact(names[0])
    return nodes


def together(nodes: dict[str, Node]) -> bool:
    return len({one.store.root() for one in nodes.values()}) == 1


def test_members_find_each_other_and_share_what_they_say() -> None:
    nodes = cluster("a", "b", "c", "d")
    now = rounds(nodes, 10)
    assert together(nodes)
    assert all(one.members.count == 4 for one in nodes.values())
    assert nodes["d"].address("b") == "b:1"
    nodes["c"].publish("profile", "job", WORK)
    rounds(nodes, 10, now)
    assert together(nodes)
    assert all(one.store.get("c", ("profile", "job")) for one in nodes.values())


def test_an_answer_to_a_ping_carries_the_clock_of_who_was_pinged() -> None:
    one = node("a")
    (answer,) = one.receive("b", Message(1, pings=(7,)), 12.5)
    assert (answer.peer, answer.payload.acks, answer.payload.clock_ns) == (
        "b",
        (7,),
        12_500_000_000,
    )
    relayed = one.receive("b", Message(1, probes=(Probe("a", 8),)), 13.0)
    assert [(each.payload.acks, each.payload.clock_ns) for each in relayed] == [((8,), 0)]


def test_nothing_is_said_until_a_member_has_listened() -> None:
    one = node("a")
    one.publish("profile", "job", WORK)
    one.publish("profile", "other", WORK)
    one.withdraw("profile", "other")
    one.add_contact("b")
    (first,) = one.tick(0.2)
    assert not first.payload.records
    assert first.payload.wanted
    assert not one.store.of("a")
    one.begin()
    assert set(one.store.of("a")) == {("member", ""), ("profile", "job")}


def test_a_member_that_nobody_answers_speaks_in_the_end() -> None:
    one = node("a")
    rounds({"a": one}, 20)
    assert not one.store.of("a")
    rounds({"a": one}, 10, 4.0)
    assert one.store.of("a")


def test_the_same_again_says_nothing() -> None:
    one = node("a")
    one.begin()
    one.publish("profile", "job", WORK)
    before = one.store.revision
    one.publish("profile", "job", WORK)
    assert one.store.revision == before


def test_a_restart_with_nothing_takes_a_higher_incarnation() -> None:
    nodes = cluster("a", "b", "c")
    nodes["a"].publish("profile", "old", WORK)
    now = rounds(nodes, 10)
    nodes["a"] = node("a", seed=2)
    nodes["a"].add_contact("b")
    nodes["a"].publish("profile", "new", WORK)
    rounds(nodes, 40, now)
    assert nodes["a"].incarnation == 2
    assert together(nodes)
    kept = {slot for slot in nodes["c"].store.of("a") if slot[0] == "profile"}
    assert kept == {("profile", "new")}


def test_a_restart_after_being_forgotten_is_shown_what_it_was() -> None:
    settings = Settings(tombstone_s=2.0)
    nodes = cluster("a", "b", settings=settings)
    nodes["a"].publish("profile", "job", WORK)
    now = rounds(nodes, 10)
    nodes["a"].withdraw("profile", "job")
    now = rounds(nodes, 30, now)
    assert nodes["b"].store.get("a", ("profile", "job")) is None
    nodes["a"] = node("a", settings, seed=2)
    nodes["a"].add_contact("b")
    nodes["a"].publish("profile", "job", WORK)
    rounds(nodes, 40, now)
    assert nodes["b"].store.get("a", ("profile", "job")) is not None
    assert together(nodes)


def test_withdrawn_records_that_somebody_still_had_are_withdrawn_again() -> None:
    nodes = cluster("a", "b", "c", settings=Settings(tombstone_s=2.0, forget_s=4.0))
    nodes["a"].publish("profile", "job", WORK)
    now = rounds(nodes, 10)
    old = nodes["b"].store.get("a", ("profile", "job"))
    assert old is not None
    nodes["a"].withdraw("profile", "job")
    now = rounds(nodes, 100, now)
    nodes["b"].receive("c", saying(old.record), now)
    rounds(nodes, 60, now)
    assert together(nodes)
    for one in nodes.values():
        held = one.store.get("a", ("profile", "job"))
        assert held is None or held.withdrawn


def test_accused_members_refute() -> None:
    nodes = cluster("a", "b", "c")
    now = rounds(nodes, 10)
    nodes["b"].receive("c", saying(accusation("z", "a")), now)
    rounds(nodes, 30, now)
    assert nodes["a"].incarnation == 2
    assert not any(one.members.is_dead("a") for one in nodes.values())


def test_accusations_of_the_far_future_are_not_run_after() -> None:
    nodes = cluster("a", "b")
    now = rounds(nodes, 10)
    nodes["a"].receive("b", saying(accusation("z", "a", COUNTER_MAX, version=2)), now)
    rounds(nodes, 20, now)
    assert nodes["a"].incarnation == 1


def test_the_dead_are_noticed_and_come_back() -> None:
    nodes = cluster("a", "b", "c", "d", settings=Settings(suspect_s=1.0, rejoin_s=2.0))
    now = rounds(nodes, 10)
    away = nodes.pop("d")
    now = rounds(nodes, 100, now)
    assert all(one.members.is_dead("d") for one in nodes.values())
    nodes["d"] = away
    rounds(nodes, 150, now)
    assert not any(one.members.dead() for one in nodes.values())
    assert together(nodes)


def test_a_clock_that_is_set_accuses_nobody() -> None:
    nodes = cluster("a", "b", "c")
    now = rounds(nodes, 10)
    for step in (600.0, -1200.0, 3600.0, float("inf")):
        for _ in range(5):
            now += 0.2
            for one in nodes.values():
                for outgoing in one.tick(now + step):
                    nodes[outgoing.peer].receive(one.name, outgoing.payload, now)
    assert not any(one.store.accused() for one in nodes.values())


def test_a_host_that_misses_rounds_accuses_nobody() -> None:
    """It hears answers only when it wakes, long after its patience should have ended."""
    nodes = cluster("a", "b", "c")
    now = rounds(nodes, 10)
    slow = nodes["a"]
    late: list[tuple[str, Message]] = []
    for number in range(200):
        now += 0.2
        if number % 10 == 0:
            waiting, late = late, []
            for outgoing in slow.tick(now):
                late += [
                    (outgoing.peer, answer.payload)
                    for answer in nodes[outgoing.peer].receive("a", outgoing.payload, now)
                ]
            for peer, message in waiting:
                slow.receive(peer, message, now)
    assert slow.health.score > 0
    assert not slow.store.accused()


def test_a_forger_is_logged_once_and_not_heard_for_a_while() -> None:
    nodes = cluster("a", "b")
    now = rounds(nodes, 10)
    root = nodes["a"].store.root()
    for version in range(2, 12):
        forged = record("b", "profile", "job", WORK, version=version, signer="c")
        nodes["a"].receive("b", saying(forged), now)
    assert nodes["a"].store.root() == root
    assert not nodes["a"].accepts_from("b", now)
    assert [event.what for event in nodes["a"].take_events()] == ["offender"]
    for _ in range(4 * 61):
        now += 0.25
        nodes["a"].tick(now)
    assert nodes["a"].accepts_from("b", now)


def test_passing_on_what_only_another_key_explains_is_told_and_costs_the_relay_alone() -> None:
    nodes = {name: node(name, Settings(writer_burst=10)) for name in "abc"}
    for name in "bc":
        nodes[name].add_contact("a")
    now = rounds(nodes, 10) + 60.0
    for version in range(100, 150):
        stolen = record("c", "profile", "job", WORK, version=version, signer="b")
        nodes["a"].receive("b", saying(stolen), now)
    assert nodes["a"].accepts_from("b", now)
    assert [(event.what, event.who) for event in nodes["a"].take_events()] == [("refused", "c")]
    # Neither the writer's own allowance is used up, nor does the relay get another word in.
    nodes["a"].receive("b", saying(profile("c", "job", version=200)), now)
    assert nodes["a"].store.get("c", ("profile", "job")) is None
    nodes["a"].receive("c", saying(profile("c", "job", version=200)), now)
    assert nodes["a"].store.get("c", ("profile", "job")) is not None


def test_other_hosts_records_cannot_be_replaced() -> None:
    nodes = cluster("a", "b", "c")
    nodes["c"].publish("profile", "job", WORK)
    now = rounds(nodes, 10)
    before = nodes["a"].store.get("c", ("profile", "job"))
    assert before is not None
    for change in ({"version": 99}, {"incarnation": 7}, {"payload": b"\x90"}):
        fields = {**{name: getattr(before.record, name) for name in Record.__struct_fields__}}
        nodes["a"].receive("b", saying(Record(**{**fields, **change})), now)
    assert nodes["a"].store.get("c", ("profile", "job")) == before


def test_bad_measurements_count_against_their_writer_only() -> None:
    nodes = cluster("a", "b", "c")
    now = rounds(nodes, 10)
    wrong = Profile(1.0, 0.5, 1e30, 8.0)
    for version in range(50, 60):
        bad = record("c", "profile", "job", wrong, version=version)
        nodes["a"].receive("b", saying(bad), now)
    assert nodes["a"].accepts_from("b", now)
    assert [(event.what, event.who) for event in nodes["a"].take_events()] == [("refused", "c")]
    for version in range(60, 70):
        bad = record("c", "profile", "job", wrong, version=version)
        nodes["a"].receive("c", saying(bad), now)
    assert not nodes["a"].accepts_from("c", now)
    assert nodes["a"].store.get("c", ("profile", "job")) is None


def test_messages_that_do_not_decode_count_too() -> None:
    one = node("a")
    for _ in range(2):
        one.offence("b", "message: expected less", 1.0)
        assert one.accepts_from("b", 1.0)
    one.offence("b", "message: expected less", 1.0)
    assert not one.accepts_from("b", 1.0)
    assert len(one.take_events()) == 1


def test_a_writer_that_floods_is_slowed_down() -> None:
    one = node("a", Settings(writer_per_s=4.0, writer_burst=10))
    flood = [profile("b", "job", float(v + 1), version=v + 2) for v in range(100)]
    for item in flood:
        one.receive("b", saying(item), 1.0)
    held = one.store.get("b", ("profile", "job"))
    assert held is not None
    assert held.record.version <= 12
    assert all(count <= most for _, count, most in one.sizes())


def test_strangers_are_passed_over() -> None:
    allowed = SimulatedVerifier(frozenset({"a", "b"}))
    one = Node(
        "a", "a:1", signer=SimulatedSigner("a"), checker=RecordChecker(allowed), rng=Random(1)
    )
    for _ in range(10):
        one.receive("b", saying(member("z")), 1.0)
    assert one.store.member("z") is None
    assert one.accepts_from("b", 1.0)
    assert [event.what for event in one.take_events()] == ["stranger"]


def test_what_a_newer_version_says_is_passed_on() -> None:
    nodes = cluster("a", "b", "c")
    now = rounds(nodes, 10)
    strange = record("d", "weather", "x", b"anything")
    nodes["a"].receive("c", Message(2, records=(strange,)), now)
    rounds(nodes, 10, now)
    held = nodes["b"].store.get("d", ("weather", "x"))
    assert held is not None
    assert held.content is None


def test_much_is_split_into_messages_within_bounds() -> None:
    one, other = node("a"), node("b")
    one.begin()
    for index in range(200):
        one.publish("weather", f"k{index}", _bulk(index))
    one.add_contact("b")
    sent = one.tick(1.0)
    assert len(sent) > 1
    assert all(len(outgoing.payload.records) <= MAX_RECORDS for outgoing in sent)
    for outgoing in sent:
        other.receive("a", outgoing.payload, 1.0)
    assert len(other.store.of("a")) > 100


def _bulk(index: int) -> Profile:
    to = tuple((f"h{number:03}{'x' * 20}", 1e9) for number in range(50))
    return Profile(1.0, 0.5, float(index), 8.0, to=to)


def test_what_is_sent_is_bounded() -> None:
    """Repairs wait when too much has been said lately."""
    settings = Settings(answer_bytes_per_s=10_000.0, answer_burst_bytes=50_000.0)
    one = node("a", settings)
    one.begin()
    for index in range(200):
        one.publish("weather", f"k{index}", _bulk(index))
    asking = Message(1, leaves=node("z").store.leaves())
    sent = 0
    for number in range(50):
        answers = one.receive(f"p{number}", asking, 1.0)
        for answer in answers:
            summary = Message(1, buckets=bytes(range(256)))
            again = one.receive(answer.peer, summary, 1.0)
            sent += sum(len(r.payload) for out in again for r in out.payload.records)
    assert sent < 60_000


def test_groups_that_share_nothing_hear_of_each_other_all_the_same() -> None:
    """News that its first telling has lost is found by comparing stores with anybody."""
    nodes = cluster(*"abcdef")
    now = rounds(nodes, 15)
    for name in nodes:
        group = "abc" if name in "abc" else "def"
        nodes[name].neighbours = tuple(other for other in group if other != name)
    nodes["a"].publish("profile", "job", WORK)
    for _ in range(200):  # everything that a says for a while is lost
        nodes["a"].tick(now)
    assert nodes["f"].store.get("a", ("profile", "job")) is None
    rounds(nodes, 150, now)
    assert together(nodes)
