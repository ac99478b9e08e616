"""Looks for paths: what is asked, what is known afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from hostcc.daemon.steering.path_discovery import (
    RETRY_SEARCH_S,
    ExternalPaths,
    ProbeRequest,
    Probes,
    TargetPaths,
    passable,
)
from hostcc.model import Path, PathTable
from hostcc.paths.packets import Target
from hostcc.paths.probed_tables import LinkNames
from hostcc.paths.refresh import RefreshSettings
from hostcc.paths.search import SILENT, Hops, SearchResult, SearchSettings

pytestmark = pytest.mark.unit

TARGET = Target("10.0.0.1", "10.0.0.2", 6, 5301)
WIRE = range(61000, 61200)


class Network:
    """Two spines; even ports take the first.  `down`: spines that are not there."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.silent: set[int] = set()
        self.sprayed = False
        self.asked: list[tuple[int, ...]] = []
        self.now = 0.0
        self.rtt_s: list[float] = []
        """Of the next searches; a millisecond afterwards."""

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def way(self, port: int) -> Hops:
        left = [spine for spine in ("s1", "s2") if spine not in self.down]
        return ("leaf", left[port % 2 % len(left)], "leaf2")

    def search(
        self, target: Target, ports: Iterable[int], settings: SearchSettings, limit_s: float
    ) -> SearchResult:
        assert (target, limit_s > 0) == (TARGET, True)
        most = settings.max_ports if not settings.risk else 20
        chosen = tuple(port for port, _ in zip(ports, range(most), strict=False))
        self.asked.append(chosen)
        if self.down >= {"s1", "s2"}:
            return SearchResult({}, 0, 1, 1, 1.0, 0.0, False, {})
        ways = {port: self.way(port) for port in chosen if port not in self.silent}
        rtt = dict.fromkeys(ways.values(), self.rtt_s.pop(0) if self.rtt_s else 0.001)
        return SearchResult(ways, 4, 1, 0, 0.0, 1.0, self.sprayed, rtt)


@pytest.fixture
def net() -> Network:
    return Network()


def probes(net: Network, **fresh: Any) -> Probes:
    return Probes(
        WIRE, SearchSettings(), RefreshSettings(**{"spot_s": 10.0, "again_s": 1.0, **fresh}),
        LinkNames.INTERFACE, net.search, lambda: net.now, net.wait,
    )  # fmt: skip


def looked(net: Network, by: Probes, known: TargetPaths) -> None:
    assert by.due(known, net.now)
    by.look(known)


def test_first_everything_then_spot_checks(net: Network) -> None:
    by, known = probes(net), TargetPaths(TARGET, asked=ProbeRequest((40000, 40001), 1))
    looked(net, by, known)
    assert known.table is not None
    assert len(known.table.paths) == 2
    assert known.path_of(40000) == known.path_of(61000) != known.path_of(40001) != ""
    assert (known.why, known.at, known.confidence) == ("", 0.0, 1.0)
    assert not by.due(known, 9.0)
    net.now = 11.0
    looked(net, by, known)
    assert len(net.asked[-1]) == 2
    assert known.at == 11.0


@pytest.mark.parametrize(
    ("rtt_s", "asked", "full"),
    [
        ([], 1, False),
        ([0.002], 1, False),
        ([0.05], 2, False),
        ([0.05, 0.05], 3, False),
        ([0.05, 0.05, 0.05], 3, True),
    ],
)
def test_a_queue_that_comes_and_goes_is_no_other_way(
    net: Network, rtt_s: list[float], asked: int, full: bool
) -> None:
    by, known = probes(net, rtt_floor_s=0.02), TargetPaths(TARGET)
    looked(net, by, known)
    net.now, net.rtt_s, net.asked = 11.0, rtt_s, []
    looked(net, by, known)
    assert len(net.asked) == asked
    assert by.due(known, net.now + 2.0) is full


def test_another_way_is_not_doubted(net: Network) -> None:
    by, known = probes(net), TargetPaths(TARGET)
    looked(net, by, known)
    net.down.add("s1")
    net.now, net.asked = 11.0, []
    looked(net, by, known)
    assert len(net.asked) == 1
    assert by.due(known, net.now)


def test_a_change_has_everything_looked_at_again(net: Network) -> None:
    by, known = probes(net), TargetPaths(TARGET, asked=ProbeRequest((40001,), 1))
    looked(net, by, known)
    before = known.path_of(40001)
    net.down, net.now = {"s2"}, 11.0
    looked(net, by, known)
    assert "takes another way" in known.why
    net.now = 12.0
    looked(net, by, known)
    assert known.table is not None
    assert len(known.table.paths) == 1
    assert known.path_of(40001) not in ("", before)
    by.hint(TARGET, "a link changed")
    net.now = 14.0
    assert by.due(known, net.now)


def test_ports_of_new_flows_are_asked_for_and_more_of_every_path(net: Network) -> None:
    by, known = probes(net), TargetPaths(TARGET, asked=ProbeRequest((), 1))
    looked(net, by, known)
    known.asked = ProbeRequest((40001,), 1)
    looked(net, by, known)
    assert net.asked[-1] == (40001,)
    known.asked = ProbeRequest((40001,), 15)
    looked(net, by, known)
    assert len(net.asked[-1]) == 16
    assert known.table is not None
    assert min(len(path.ports) for path in known.table.paths) >= 15
    assert not by.due(known, net.now)


def test_a_port_without_an_answer_is_left_alone_for_a_while(net: Network) -> None:
    by, known = probes(net), TargetPaths(TARGET)
    looked(net, by, known)
    net.silent, known.asked = {40001}, ProbeRequest((40001,), 1)
    looked(net, by, known)
    assert known.path_of(40001) == ""
    assert not by.due(known, net.now + 1)
    net.silent, net.now = set(), RETRY_SEARCH_S
    assert by.due(known, net.now)


def test_the_paths_of_flows_come_first_where_all_paths_are_known_otherwise(net: Network) -> None:
    net.now = 100.0
    asked = ProbeRequest((40000,), 1, own_first=True)
    by, known = probes(net), TargetPaths(TARGET, asked=asked)
    looked(net, by, known)
    assert net.asked == [(40000,)]
    assert known.path_of(40000)
    assert (known.why, known.is_whole) == ("", False)
    looked(net, by, known)
    assert known.table is not None
    assert (known.is_whole, len(known.table.paths)) == (True, 2)
    assert not by.due(known, net.now)
    # Where no answer comes, nothing is lost by having asked.
    net.silent = {40000}
    by, known = probes(net), TargetPaths(TARGET, asked=asked)
    looked(net, by, known)
    assert known.is_whole


def test_a_table_of_long_ago_serves_until_it_is_searched_again(net: Network) -> None:
    by, known = probes(net), TargetPaths(TARGET)
    looked(net, by, known)
    net.now, net.asked, known.asked = 700.0, [], ProbeRequest((40001,), 1)
    looked(net, by, known)
    assert net.asked == [(40001,)]
    assert known.path_of(40001)
    looked(net, by, known)
    assert len(net.asked[-1]) == 20
    # One that is known to be wrong does not.
    by.hint(TARGET, "a link changed")
    net.now, known.asked = 800.0, ProbeRequest((40002,), 1)
    looked(net, by, known)
    assert len(net.asked[-1]) == 20


@pytest.mark.parametrize("way", [("leaf", SILENT, "leaf2"), ("leaf", "s1"), ()], ids=str)
def test_a_lost_answer_makes_no_new_way(net: Network, way: Hops) -> None:
    """Nor does one behind which nobody else was asked, so that the way seems to end there."""
    by, known = probes(net), TargetPaths(TARGET)
    looked(net, by, known)
    known.asked = ProbeRequest((40001,), 1)
    net.way = lambda port: way  # type: ignore[method-assign]
    looked(net, by, known)
    assert known.table is not None
    assert len(known.table.paths) == 2
    assert known.path_of(40001) == ""


def test_another_way_of_a_new_port_is_one(net: Network) -> None:
    by, known = probes(net), TargetPaths(TARGET)
    looked(net, by, known)
    known.asked = ProbeRequest((40001,), 1)
    net.way = lambda port: ("leaf", "s3", "leaf2")  # type: ignore[method-assign]
    looked(net, by, known)
    assert known.table is not None
    assert len(known.table.paths) == 3
    assert known.path_of(40001)


@pytest.mark.parametrize("what", ["sprayed", "silent"])
def test_nothing_to_choose(net: Network, what: str) -> None:
    by, known = probes(net), TargetPaths(TARGET)
    net.sprayed = what == "sprayed"
    net.down = set() if net.sprayed else {"s1", "s2"}
    looked(net, by, known)
    assert known.table is None
    assert known.why
    assert not by.due(known, RETRY_SEARCH_S - 1)
    net.sprayed, net.down, net.now = False, set(), RETRY_SEARCH_S
    looked(net, by, known)
    assert known.table is not None


def test_ways_on_which_nobody_answers_where_others_do_are_left_alone() -> None:
    seen, dead, short = ("leaf", "s1", "leaf2"), ("leaf", SILENT, SILENT), ("leaf", "s2", SILENT)
    ways: dict[Hops, tuple[int, ...]] = {seen: (1,), dead: (2,), short: (3,)}
    assert passable(ways) == {seen: (1,)}
    hidden: dict[Hops, tuple[int, ...]] = {("leaf", SILENT, "a"): (1,), ("leaf", SILENT, "b"): (2,)}
    assert passable(hidden) == hidden


def test_what_is_missed_is_remembered_until_it_is_seen_again(net: Network) -> None:
    by, known = probes(net), TargetPaths(TARGET)
    looked(net, by, known)
    before = known.links
    net.down, net.now = {"s2"}, 5.0
    by.hint(TARGET, "a flow stands still")
    looked(net, by, known)
    assert set(known.gone) == before - known.links == {">s2"}
    net.down, net.now = set(), 10.0
    by.hint(TARGET, "a link is missed")
    looked(net, by, known)
    assert (known.gone, known.links) == ({}, before)


class Book:
    """A static source."""

    def __init__(self) -> None:
        self.paths: tuple[Path, ...] = (Path("p", ("x", "y"), (61000,)),)

    def table(self, target: Target) -> PathTable | None:
        return PathTable(target.src, target.dst, self.paths) if self.paths else None


def test_other_sources_are_asked_again_from_time_to_time(net: Network) -> None:
    book = Book()
    by, known = ExternalPaths(lambda: book, 60.0, lambda: net.now), TargetPaths(TARGET)
    assert by.due(known, 0.0)
    by.look(known)
    assert known.path_of(61000) == "p"
    assert not by.due(known, 59.0)
    by.hint(TARGET, "a route came")
    assert by.due(known, 1.0)
    book.paths = ()
    by.look(known)
    assert (known.table, known.path_of(61000), bool(known.why)) == (None, "", True)
