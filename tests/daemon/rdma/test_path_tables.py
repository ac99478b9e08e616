"""Paths between the ends of queue pairs: asked for a few at a time, again and again."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from hostcc.daemon.rdma.pairs import Ends
from hostcc.daemon.rdma.path_doubts import AGAIN, STANDS
from hostcc.daemon.rdma.path_tables import (
    DOUBT_S,
    MAX_CONCURRENT_PROBES,
    QUICK_S,
    RETRY_S,
    PathTables,
)
from hostcc.errors import HostccError
from hostcc.model import Path, PathTable

pytestmark = pytest.mark.unit
HERE = "198.18.1.1"
EVERY_S = 60.0


class Network:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ready = threading.Event()
        self.fails = False

    def __call__(self, src: str, dst: str) -> PathTable:
        self.asked.append(dst)
        assert self.ready.wait(30)
        if self.fails:
            raise HostccError("no answer")
        return PathTable(src, dst, (Path("p", (f"{src}>", f">{dst}"), (50000,)),))


def ends(*numbers: int) -> set[Ends]:
    return {(HERE, f"198.18.2.{number}") for number in numbers}


async def looked_into(ways: PathTables, ends: set[Ends]) -> None:
    """Quick looks, then what they bring about."""
    for _ in range(2):
        ways.want(ends, EVERY_S)
        await settle(ways)


async def settle(ways: PathTables) -> None:
    await asyncio.gather(*ways._looks.values(), *ways._probes.values())


def test_a_few_at_a_time_the_longest_due_first() -> None:
    network, now = Network(), [100.0]
    ways = PathTables(lambda: now[0])
    ways.ask = network

    async def scene() -> None:
        wanted = ends(*range(5))
        ways.want(wanted, EVERY_S)
        ways.want(wanted, EVERY_S)
        assert len(ways._probes) == MAX_CONCURRENT_PROBES
        network.ready.set()
        await settle(ways)
        ways.want(wanted, EVERY_S)
        await settle(ways)
        assert sorted(network.asked) == sorted(dst for _, dst in wanted)
        assert ways.tables.keys() == wanted
        now[0] += EVERY_S
        ways.want(ends(1), EVERY_S)
        assert ways.tables.keys() == ends(1)  # others are forgotten
        await settle(ways)
        assert len(network.asked) == 6
        ways.stop()
        assert not ways.tables

    asyncio.run(scene())


def test_what_was_known_stays_and_is_asked_again_soon() -> None:
    network, now = Network(), [100.0]
    network.ready.set()
    ways = PathTables(lambda: now[0])
    ways.ask = network

    async def scene() -> None:
        ways.want(ends(1), EVERY_S)
        await settle(ways)
        network.fails = True
        now[0] += EVERY_S
        ways.want(ends(1), EVERY_S)
        await settle(ways)
        assert ways.tables.keys() == ends(1)
        assert list(ways.why.values()) == ["no answer"]
        network.fails = False
        now[0] += RETRY_S
        ways.want(ends(1), EVERY_S)
        await settle(ways)
        assert not ways.why
        assert len(network.asked) == 3

    asyncio.run(scene())


def test_doubts_are_looked_into_soon_and_not_too_often() -> None:
    network, now = Network(), [100.0]
    network.ready.set()
    ways = PathTables(lambda: now[0])
    ways.ask = network

    async def scene() -> None:
        both = ends(1, 2)
        ways.want(both, EVERY_S)
        await settle(ways)
        for second in range(1, 21):
            now[0] = 100.0 + second
            ways.doubt(dict.fromkeys(ends(1, 3), "completions failed"))  # of 3 nobody wants any
            ways.want(both, EVERY_S)
            await settle(ways)
        asked = [network.asked.count(dst) for _, dst in sorted(both)]
        assert asked == [1 + 20 // DOUBT_S, 1]
        now[0] += DOUBT_S
        ways.doubt_all("a link changed")
        await looked_into(ways, both)
        assert [network.asked.count(dst) for _, dst in sorted(both)] == [asked[0] + 1, 2]

    asyncio.run(scene())


class Checked:
    """Two paths, of which the second may be dead; the first look is let wait for."""

    def __init__(self) -> None:
        self.looks, self.glances, self.searches = 0, 0, 0
        self.dead, self.fails = False, False
        self.ready, self.searching = threading.Event(), threading.Event()
        self.ready.set()

    def check(self, table: PathTable, *, quick: bool = False) -> PathTable:
        self.looks += not quick
        self.glances += quick
        if self.fails:
            raise HostccError("no answer")
        return replace(table, paths=table.paths[:1]) if self.dead else table

    def __call__(self, src: str, dst: str) -> PathTable:
        self.searches += 1
        self.searching.set()
        assert self.ready.wait(30)
        paths = [Path(name, (f"{src}>", f">{name}", f">{dst}"), (port,))
                 for name, port in (("p", 50000), ("q", 50001))]  # fmt: skip
        return PathTable(src, dst, tuple(paths[:1] if self.dead else paths))


def test_a_doubt_is_looked_into_before_all_paths_are() -> None:
    """What a few packets say counts while a search for all paths is under way."""
    network, now = Checked(), [100.0]
    ways = PathTables(lambda: now[0])
    ways.ask, ways.check = network, network.check
    (one,) = ends(1)

    async def scene() -> None:
        ways.want({one}, EVERY_S)
        await settle(ways)
        assert not ways.known[one].gone
        network.dead = True
        network.ready.clear()
        network.searching.clear()
        now[0] += QUICK_S
        ways.doubt({one: AGAIN})
        ways.want({one}, EVERY_S)
        await asyncio.gather(*ways._looks.values())
        ways.want({one}, EVERY_S)
        await asyncio.to_thread(network.searching.wait, 30)
        assert [path.id for path in ways.tables[one].paths] == ["p"]
        assert ways.known[one].gone == {">q": now[0]}
        network.ready.set()
        await settle(ways)

    asyncio.run(scene())


def test_what_stands_still_costs_no_search_while_its_paths_work() -> None:
    network, now = Checked(), [100.0]
    ways = PathTables(lambda: now[0])
    ways.ask, ways.check = network, network.check
    (one,) = ends(1)

    async def scene() -> None:
        for second in range(int(2 * EVERY_S) + 1):
            now[0] = 100.0 + second
            ways.doubt({one: STANDS})
            ways.want({one}, EVERY_S)
            await settle(ways)
        assert network.searches == 3  # as without doubts
        assert (network.glances, network.looks) == (2 * EVERY_S, 0)  # none before the first search
        since = now[0]
        assert ways.answers(one, "q", since) is None  # no look after that yet
        assert ways.answers(one, "q", since - DOUBT_S) is True
        network.dead = True
        now[0] += DOUBT_S
        ways.doubt({one: STANDS})
        await looked_into(ways, {one})
        assert network.searches == 4
        assert [path.id for path in ways.tables[one].paths] == ["p"]
        assert [ways.answers(one, path, since) for path in ("p", "q")] == [True, False]
        network.fails = True
        now[0] += DOUBT_S
        ways.doubt({one: STANDS})
        await looked_into(ways, {one})
        assert ways.answers(one, "p", since + DOUBT_S) is False  # a look that tells nothing

    asyncio.run(scene())


def test_a_search_does_not_keep_the_known_paths_from_being_looked_at() -> None:
    """Nor does the last one; what a quick look misses is not taken for gone."""
    network, now = Checked(), [100.0]
    ways = PathTables(lambda: now[0])
    ways.ask, ways.check = network, network.check
    (one,) = ends(1)

    async def scene() -> None:
        ways.want({one}, EVERY_S)
        await settle(ways)
        network.ready.clear()
        network.searching.clear()
        now[0] += EVERY_S
        ways.want({one}, EVERY_S)
        await asyncio.to_thread(network.searching.wait, 30)
        network.dead = True
        ways.doubt({one: STANDS})
        ways.want({one}, EVERY_S)
        looking = [ways.is_looking]
        await asyncio.gather(*ways._looks.values())
        looking.append(ways.is_looking)
        assert ways.misses(one, "q", now[0] - 1)
        assert not ways.misses(one, "p", now[0] - 1)
        assert not ways.misses(one, "q", now[0])  # since then nobody has looked
        assert not ways.known[one].gone
        network.dead = False
        ways.doubt({one: STANDS})
        ways.want({one}, EVERY_S)
        looking.append(ways.is_looking)
        assert looking == [True, False, False]  # not again so soon
        now[0] += QUICK_S
        ways.want({one}, EVERY_S)
        await asyncio.gather(*ways._looks.values())
        assert not ways.misses(one, "q", 0.0)
        network.ready.set()
        await settle(ways)

    asyncio.run(scene())
