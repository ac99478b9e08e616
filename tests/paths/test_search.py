"""The search against networks of every kind."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.paths import source_ports
from hostcc.paths.packets import Kind, Reply
from hostcc.paths.search import SILENT, Hops, Probe, Search, SearchSettings
from tests.paths.network import Network, play

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def clos(spines: int) -> list[Hops]:
    return [("leaf1", f"spine{n}", f"leaf2-{n}") for n in range(spines)]


@pytest.mark.parametrize("spines", [1, 2, 4, 16, 64])
def test_finds_every_path_and_stops_by_the_rule(spines: int) -> None:
    found, _ = play(Network(clos(spines), seed=3), settings=SearchSettings(risk=1e-4))
    assert set(found.paths) == set(clos(spines))
    assert found.distance == 4
    assert not found.sprayed
    assert found.missed_risk <= 1e-4
    allowed = source_ports.stop_after(spines, 1e-4) + SearchSettings().parallel
    assert len(found.ports) <= allowed
    assert found.confidence > 0.98


def test_shared_hops_are_asked_seldom() -> None:
    found, _ = play(Network(clos(16), seed=1))
    ports = len(found.ports)
    assert found.probes < 2.3 * ports + 30  # three hops each would be 3 * ports


def test_ports_needed_are_near_the_expectation() -> None:
    needed = []
    for seed in range(30):
        found, _ = play(Network(clos(8), seed=seed))
        seen: set[Hops] = set()
        last = 0
        for number, hops in enumerate(found.ports.values(), 1):
            if hops not in seen:
                seen.add(hops)
                last = number
        needed.append(last)
    assert statistics.mean(needed) == pytest.approx(source_ports.expected_ports(8), rel=0.25)


@settings(max_examples=40)
@given(
    spines=st.integers(1, 8),
    seed=st.integers(0, 1000),
    loss=st.floats(0, 0.3),
    silent=st.sets(st.sampled_from(["leaf1", "spine0"]), max_size=1),
    echo=st.booleans(),
    udp=st.booleans(),
)
def test_what_is_reported_is_true(
    spines: int, seed: int, loss: float, silent: set[str], echo: bool, udp: bool
) -> None:
    network = Network(clos(spines), seed=seed, loss=loss, silent=frozenset(silent), echo=echo,
                      udp=udp)  # fmt: skip
    found, _ = play(network, range(100, 400), SearchSettings(risk=1e-7))
    for port, hops in found.ports.items():
        way = network.way(port)
        assert len(hops) <= len(way)
        for told, real in zip(hops, way, strict=False):
            assert told in (real, SILENT)
    assert not found.sprayed
    assert 0 <= found.confidence <= 1


def leaf_spine(spines: int) -> list[Hops]:
    """As routers name themselves: the ways have their last hop in common."""
    return [("leaf1", f"spine{n}", "leaf2") for n in range(spines)]


def test_a_check_without_an_answer_leaves_what_is_known() -> None:
    """Routers answer until all ports were asked, and no more when ways are asked for again."""
    whole = Network(leaf_spine(2), seed=3)
    play(whole)
    for last in range(whole.asked - 8, whole.asked + 1):
        network = Network(leaf_spine(2), seed=3, mute=partial(_later, last))
        found, _ = play(network)
        assert set(found.paths) <= set(leaf_spine(2))
        assert len(found.ports) > 8
        assert not found.sprayed


def _later(last: int, number: int, _: Probe) -> bool:
    return number > last


def test_a_hop_that_answers_only_when_asked_again_is_no_spraying() -> None:
    """All answers of one port's second hop are lost until the search has made up its mind."""
    attempts = SearchSettings().attempts
    asked: Counter[tuple[int, int]] = Counter()

    def mute(_: int, probe: Probe) -> bool:
        asked[probe.port, probe.ttl] += 1
        return (probe.port, probe.ttl) == (100, 2) and asked[100, 2] <= attempts

    found, _ = play(Network(leaf_spine(2), seed=3, mute=mute), range(100, 104))
    assert set(found.paths) == set(leaf_spine(2))
    assert not found.sprayed


@settings(max_examples=150, deadline=None)
@given(
    fabric=st.sampled_from([clos, leaf_spine]),
    spines=st.integers(1, 5),
    seed=st.integers(0, 1000),
    never=st.sets(st.tuples(st.integers(0, 12), st.integers(1, 3)), max_size=12),
    row=st.lists(st.booleans(), min_size=1, max_size=40),
    silence_after=st.integers(0, 400),
    errors_per_s=st.sampled_from([0.0, 1.0]),
)
def test_lost_answers_invent_nothing(
    fabric: Callable[[int], list[Hops]], spines: int, seed: int, never: set[tuple[int, int]],
    row: list[bool], silence_after: int, errors_per_s: float,
) -> None:  # fmt: skip
    """Some ports never hear of a hop, some answers are lost in a row that repeats, the last of
    all, and routers answer seldom."""
    heard: set[tuple[int, str]] = set()

    def mute(number: int, probe: Probe) -> bool:
        lost = (
            number > silence_after
            or row[number % len(row)]
            or (probe.port % 13, probe.ttl) in never
        )
        if not lost and probe.port and probe.ttl <= 3:
            heard.add((probe.ttl, network.way(probe.port)[probe.ttl - 1]))
        return lost

    network = Network(fabric(spines), seed, errors_per_s=errors_per_s, mute=mute)
    found, _ = play(network, range(100, 400), SearchSettings(risk=1e-7, max_ports=120))
    ways = {network.way(port) for port in found.ports}
    assert len(found.paths) <= len(ways)
    for port, hops in found.ports.items():
        for ttl, (told, real) in enumerate(zip(hops, network.way(port), strict=False), 1):
            assert told in (real, SILENT)
            assert told == SILENT or (ttl, told) in heard
    assert not found.sprayed


def test_the_end_that_one_port_finds_completes_the_others() -> None:
    network = Network(clos(3), seed=266, loss=0.2, echo=False, udp=True)
    found, _ = play(network, range(100, 400), SearchSettings(risk=1e-7))
    assert set(found.paths) == set(clos(3))


def test_limited_routers_are_paced_not_lost() -> None:
    network = Network(clos(4), seed=5, errors_per_s=5.0)
    found, seconds = play(network)
    assert set(found.paths) == set(clos(4))
    assert seconds < 120


def test_one_error_a_second_is_enough() -> None:
    """Linux's default limit, at every router."""
    found, seconds = play(Network(clos(2), seed=2, errors_per_s=1.0))
    assert set(found.paths) == set(clos(2))
    assert seconds < 120


def test_a_silent_hop_is_shown_as_such_and_lowers_confidence() -> None:
    found, _ = play(Network(clos(4), seed=1, silent=frozenset({"leaf1"})))
    assert {hops[0] for hops in found.paths} == {SILENT}
    assert len(found.paths) == 4
    assert 0.6 < found.confidence < 0.7


def test_per_packet_spraying_is_noticed() -> None:
    found, _ = play(Network(clos(4), seed=1, sprays=True), range(100, 140))
    assert found.sprayed
    assert found.confidence == 0


def test_a_dead_destination_ends() -> None:
    found, seconds = play(Network([()], echo=False))
    assert found.ports == {} or set(found.ports.values()) == {()}
    assert seconds < 60


def answers(search: Search, probe: Probe, router: str, now: float = 0.0) -> None:
    search.heard(Reply(Kind.HOP, router, probe.token, probe.port, 1), now)


def test_unasked_answers_are_ignored() -> None:
    search = Search(range(100, 110), rng=random.Random(1))
    (probe,) = search.due(0.0)
    search.heard(Reply(Kind.HOP, "mallory", probe.token ^ 1, 0, 1), 0.0)
    search.heard(Reply(Kind.HOP, "mallory", probe.token, 777, 1), 0.0)
    search.heard(Reply(Kind.REFUSED, "mallory", probe.token, 0, probe.ttl + 1), 0.0)
    assert search.result().unconfirmed == 3
    answers(search, probe, "leaf1")
    (again,) = search.due(1.0)
    assert (again.ttl, again.token != probe.token) == (1, True)
    answers(search, again, "leaf1", 1.0)
    assert [p.ttl for p in search.due(2.0)] == [2]


def test_tokens_of_a_search_share_a_half_and_are_never_guessed_from_the_last() -> None:
    """And not the same from one search to the next."""
    seen = []
    for seed in range(20):
        search, now = Search(range(100, 900), rng=random.Random(seed)), 0.0
        for _ in range(10):
            probes = search.due(now)
            assert {probe.token >> 16 for probe in probes} <= {search.prefix}
            seen += [probe.token for probe in probes]
            now += 1.0
    assert len({token >> 16 for token in seen}) == 20
    assert len({token & 0xFFFF for token in seen}) == len(seen)
    assert min(seen) > 1 << 16


def test_a_router_with_one_answer_is_not_believed() -> None:
    """One answer of a stranger in each search is as if it had never come."""
    for number in range(4, 60):
        network = Network(leaf_spine(2), seed=3)
        genuine, asked = network.answer, 0

        def forged(probe: Probe, now: float, number: int = number) -> Reply | None:
            nonlocal asked
            asked += 1
            reply = genuine(probe, now)  # noqa: B023 - called in this turn only
            if asked == number and probe.port:
                return Reply(Kind.HOP, "mallory", probe.token, probe.port, 1)
            return reply

        network.answer = forged  # type: ignore[method-assign]
        found, _ = play(network)
        assert set(found.paths) == set(leaf_spine(2))
        assert not found.sprayed
        assert found.distance == 4


def test_one_answer_does_not_end_a_path() -> None:
    for kind in (Kind.REACHED, Kind.REFUSED):
        network = Network(leaf_spine(2), seed=3)
        genuine, asked = network.answer, Counter[bool]()

        def forged(
            probe: Probe,
            now: float,
            kind: Kind = kind,
            genuine: Callable[[Probe, float], Reply | None] = genuine,
            asked: Counter[bool] = asked,
        ) -> Reply | None:
            asked[probe.port > 0] += 1
            if asked[probe.port > 0] == 1:  # of echo requests, and of ports
                return Reply(kind, "mallory", probe.token, probe.port, 0)
            return genuine(probe, now)

        network.answer = forged  # type: ignore[method-assign]
        found, _ = play(network)
        assert set(found.paths) == set(leaf_spine(2))
        assert found.distance == 4


def test_unequal_lengths() -> None:
    ways: list[Hops] = [("leaf1", "spine0", "leaf2"), ("leaf1", "spine1", "leaf2")]
    found, _ = play(Network(ways, seed=4, echo=False, udp=True))
    assert set(found.paths) == set(ways)
    assert found.distance == 4
