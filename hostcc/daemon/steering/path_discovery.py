"""Searches paths: which ports to probe, and what is known afterwards.  Blocks; in a thread."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from hostcc.model import PathTable
from hostcc.paths import probed_tables, prober
from hostcc.paths.packets import Target
from hostcc.paths.probed_tables import LinkNames
from hostcc.paths.refresh import (
    ProbeDetail,
    Refresh,
    RefreshSettings,
    changes,
    spot_ports,
    spot_settings,
)
from hostcc.paths.search import SILENT, Hops, SearchResult, SearchSettings, differ
from hostcc.paths.sources import PathSource

SEARCH_LIMIT_S = 20.0
"""Longest time of one search."""
RISK = 0.01
PORTS_AT_ONCE = 16
"""Ports probed at a time when a path has run out of them."""
MAX_PORTS_PER_TARGET = 512
"""Ports known of a target; flows that want more stay where they are."""
LATENCY_CONFIRMATIONS, CONFIRM_EVERY_S = 2, 0.3
"""Spot checks that have to confirm a jump of the latency, and the time between them."""
RETRY_SEARCH_S = 10.0
"""Wait after a failed search, and before a silent port is probed again."""


@dataclass(frozen=True)
class ProbeRequest:
    """What flows need to know about a target's paths."""

    ports: tuple[int, ...] = ()
    """Source ports of which the path is wanted: the flows' own, and those on the wire."""
    flows: int = 1
    """Flows that may need a port of one path at the same time."""
    own_first: bool = False
    """Whether the paths of `ports` are of use before all paths are found."""


@dataclass
class TargetPaths:
    """Known paths to a target."""

    target: Target
    table: PathTable | None = None
    confidence: float = 0.0
    at: float | None = None
    """Time of the last confirmation, CLOCK_MONOTONIC."""
    why: str = "not looked for yet"
    """Why there is no table; empty when there is one."""
    is_whole: bool = False
    """Whether the table is of a search for all paths."""
    asked: ProbeRequest = field(default_factory=ProbeRequest)
    wanted_at: float = 0.0
    """Time of the last request for it, CLOCK_MONOTONIC."""
    gone: dict[str, float] = field(default_factory=dict)
    """Link that a search has missed -> when; CLOCK_MONOTONIC."""
    _by_port: dict[int, str] = field(default_factory=dict)

    def path_of(self, port: int) -> str:
        """Return the id of the path of a source port; empty: unknown."""
        return self._by_port.get(port, "")

    @property
    def links(self) -> frozenset[str]:
        """All links of its paths."""
        paths = self.table.paths if self.table is not None else ()
        return frozenset(link for path in paths for link in path.links)

    def take(
        self, table: PathTable | None, confidence: float, now: float, why: str, *,
        is_whole: bool = True,
    ) -> None:  # fmt: skip
        """Take the result of a search; `is_whole`: for all paths."""
        before, self.is_whole = self.links, is_whole and table is not None
        self.table, self.confidence, self.at, self.why = table, confidence, now, why
        paths = table.paths if table is not None else ()
        if paths:
            lost = dict.fromkeys(before - self.links, now)
            self.gone = {x: at for x, at in (self.gone | lost).items() if x not in self.links}
        self._by_port = {port: path.id for path in paths for port in path.ports}


class Explorer(Protocol):
    """Finds the paths of targets and decides when to search again.

    `look` is called in a thread; no other method is called for the same target meanwhile.
    """

    def due(self, known: TargetPaths, now: float) -> bool:
        """Check whether it is time for a search."""

    def look(self, known: TargetPaths) -> None:
        """Search; blocks.  Raises HostccError."""

    def hint(self, target: Target, reason: str) -> None:
        """Record a reason to doubt what is known."""

    def forget(self, target: Target) -> None:
        """Drop a target that nobody wants to know."""


@dataclass
class _Target:
    # What is kept in mind of one target between looks.
    refresh: Refresh
    not_before: float | None = None
    """The last look came to nothing: when to try again."""
    silent: dict[int, float] = field(default_factory=dict)
    """Ports that gave no answer, and when to ask again."""


class Probes:
    """An Explorer that probes the network."""

    def __init__(
        self,
        candidates: Iterable[int],
        pace: SearchSettings,
        fresh: RefreshSettings,
        names: LinkNames,
        search: Callable[..., SearchResult] = prober.search,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        *,
        labels: bool = False,
    ) -> None:
        """`candidates`: source ports that may be put on the wire, in the order to try them;
        with `labels` they are flow labels where IPv6 goes."""
        self._candidates, self._labels = tuple(candidates), labels
        self._wire = frozenset(self._candidates)
        self._pace, self._fresh, self._names = pace, fresh, names
        self._search, self._clock, self._sleep = search, clock, sleep
        self._targets: dict[Target, _Target] = {}

    def due(self, known: TargetPaths, now: float) -> bool:
        """See Explorer."""
        of = self._of(known.target)
        if of.not_before is not None:
            return now >= of.not_before
        if of.refresh.due(now) is not ProbeDetail.NOT:
            return True
        return of.refresh.found is not None and bool(self._unknown(known, of.refresh.found))

    def look(self, known: TargetPaths) -> None:
        """See Explorer."""
        of, target = self._of(known.target), known.target
        refresh, before = of.refresh, of.refresh.found
        if before is None and known.asked.own_first and self._own(known):
            return
        how, failed = refresh.due(self._clock()), of.not_before is not None
        more = () if before is None or failed else self._unknown(known, before)
        # Where a table is only old, what flows need of it comes before all of it anew.
        is_wrong = bool(refresh.reasons) or not more
        if before is None or failed or (how is ProbeDetail.FULL and is_wrong):
            found = self._full(target, known.asked)
            refresh.searched(found, self._clock())
        elif more:
            found = _merged(before, self._asked(target, more))
            refresh.found = found
            until = self._clock() + RETRY_SEARCH_S
            of.silent.update({port: until for port in more if port not in found.ports})
        else:
            found = before
            refresh.spotted(self._spot(target, found), self._clock())
            if refresh.reasons:
                known.why = refresh.reasons[0]
                return
        self._tell(known, found)

    def hint(self, target: Target, reason: str) -> None:
        """See Explorer."""
        self._of(target).refresh.hint([reason])

    def forget(self, target: Target) -> None:
        """See Explorer."""
        self._targets.pop(target, None)

    def _of(self, target: Target) -> _Target:
        if target not in self._targets:
            self._targets[target] = _Target(Refresh(self._fresh))
        return self._targets[target]

    def _own(self, known: TargetPaths) -> bool:
        # Only which paths flows are on; all paths are due next, as no full search is recorded.
        target = known.target
        ports = self._askable(target, known.asked)
        found = self._asked(target, ports) if ports else None
        if found is None or not found.ports or found.sprayed:
            return False
        self._of(target).refresh.found = found
        self._tell(known, found, is_whole=False)
        return True

    def _full(self, target: Target, asked: ProbeRequest) -> SearchResult:
        # All paths, with ports for so many flows: each factor e in the risk is one more port
        # of every path, about.
        ports = dict.fromkeys((*self._askable(target, asked), *self._candidates))
        risk = RISK * math.exp(-min(asked.flows - 1, 64))
        pace = replace(self._pace, risk=risk)
        return self._search(self._as_sent(target), ports, pace, limit_s=SEARCH_LIMIT_S)

    def _spot(self, target: Target, found: SearchResult) -> SearchResult:
        # A spot check, repeated where nothing but the time has changed: that may be a queue,
        # which a full search would meet as well.
        ports = spot_ports(found)
        looked = self._asked(target, ports)
        for _ in range(LATENCY_CONFIRMATIONS):
            other = any(looked.ports.get(port) != found.ports[port] for port in ports)
            if other or not changes(found, looked, self._fresh):
                break
            self._sleep(CONFIRM_EVERY_S)
            looked = self._asked(target, ports)
        return looked

    def _asked(self, target: Target, ports: tuple[int, ...]) -> SearchResult:
        return self._search(
            self._as_sent(target), ports, spot_settings(self._pace, len(ports)),
            limit_s=SEARCH_LIMIT_S,
        )  # fmt: skip

    def _as_sent(self, target: Target) -> Target:
        return replace(target, by_label=True) if self._labels and target.ipv6 else target

    def _askable(self, target: Target, asked: ProbeRequest) -> tuple[int, ...]:
        # Sockets' own ports say nothing where switches hash labels.
        if not (self._labels and target.ipv6):
            return asked.ports
        return tuple(port for port in asked.ports if port in self._wire)

    def _unknown(self, known: TargetPaths, found: SearchResult) -> tuple[int, ...]:
        # Ports that are asked for and unknown, and more where a path has too few.
        now = self._clock()
        silent = {p for p, until in self._of(known.target).silent.items() if until > now}
        ports = self._askable(known.target, known.asked)
        asked = tuple(p for p in ports if p not in found.ports and p not in silent)
        ways = passable(found.paths)
        if found.sprayed or not ways:
            return ()
        fewest = min(len(self._wire.intersection(ports)) for ports in ways.values())
        if fewest >= known.asked.flows or len(found.ports) >= MAX_PORTS_PER_TARGET:
            return asked
        fresh = (p for p in self._candidates if p not in found.ports and p not in silent)
        return asked + tuple(port for port, _ in zip(fresh, range(PORTS_AT_ONCE), strict=False))

    def _tell(self, known: TargetPaths, found: SearchResult, *, is_whole: bool = True) -> None:
        why = ""
        if found.sprayed:
            why = "packets of one source port take several ways"
        elif not found.ports:
            why = "no router answers"
        target = known.target
        self._of(target).not_before = self._clock() + RETRY_SEARCH_S if why else None
        table = None
        if not why:
            table = probed_tables.table_of(
                target.src, target.dst, passable(found.paths), time.time(), self._names
            )  # fmt: skip
        known.take(table, found.confidence, self._clock(), why, is_whole=is_whole)


class ExternalPaths:
    """An Explorer that asks another source from time to time."""

    def __init__(
        self,
        source: Callable[[], PathSource],
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`source` gives it as it is now: a file that is read again, records that have come."""
        self._source, self._every_s, self._clock = source, every_s, clock
        self._due: dict[Target, float] = {}

    def due(self, known: TargetPaths, now: float) -> bool:
        """See Explorer."""
        return now >= self._due.get(known.target, 0.0)

    def look(self, known: TargetPaths) -> None:
        """See Explorer."""
        now = self._clock()
        self._due[known.target] = now + self._every_s
        table = self._source().table(known.target)
        why = "" if table is not None else "the source knows nothing of it"
        known.take(table, 1.0 if table is not None else 0.0, now, why)

    def hint(self, target: Target, reason: str) -> None:  # noqa: ARG002 - as Explorer has it
        """See Explorer."""
        self._due.pop(target, None)

    def forget(self, target: Target) -> None:
        """See Explorer."""
        self._due.pop(target, None)


def passable(ways: Mapping[Hops, tuple[int, ...]]) -> dict[Hops, tuple[int, ...]]:
    """Return paths to steer onto: not those on which nobody answers where others do.

    What is behind may be dead, and doubt means ECMP.
    """
    heard = {depth for way in ways for depth, hop in enumerate(way) if hop != SILENT}
    return {
        way: ports
        for way, ports in ways.items()
        if not any(hop == SILENT and depth in heard for depth, hop in enumerate(way))
    }


def _merged(found: SearchResult, more: SearchResult) -> SearchResult:
    # Ways with more ports; a lost answer makes no new way.
    ways = set(found.paths)
    new = {
        port: way
        for port, way in more.ports.items()
        if way in ways or (SILENT not in way and all(differ(way, known) for known in ways))
    }
    return replace(found, ports={**found.ports, **new}, probes=found.probes + more.probes)
