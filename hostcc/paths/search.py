"""The search for all paths to one destination, without I/O or a clock of its own.

`due` says what to send now, `heard` takes an answer, `wake` says when to ask again.  First
the distance is found by echo requests, then ports are tried one after the other, each at
every hop, until the stopping rule of `counts` is content.  A hop at which the first ports all
met the same router is asked again only now and then: those routers answer for every port, so
they are the ones whose limit on ICMP errors is soonest reached.  An answer that does not come
is asked for again, and that hop is asked half as fast.  One that never comes tells nothing: it
takes back no answer, and makes no way of its own.

Answers are believed that nobody could make up: each probe has a token of 32 random bits, probes
go out in random order, and a router, a distance or an end counts once two answers say so.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

from hostcc.paths import source_ports
from hostcc.paths.packets import Kind, Reply
from hostcc.paths.search_state import MIN_ANSWERS, Depth, Port

Hops = tuple[str, ...]
"""Routers in order, SILENT where none ever answers."""
SILENT = "*"
VERIFIED_PORTS = 4
SLOWEST_S = 1.3
"""Longest interval between two answers of a router: Linux's default is one a second."""


@dataclass(frozen=True)
class SearchSettings:
    """Limits and rates of a search."""

    risk: float = 0.01
    """Accepted probability of missing a path, all being equally likely; 0: try every port."""
    max_ports: int = 1024
    max_hops: int = 16
    per_hop_pps: float = 50.0
    """Probes per second that end at one hop, until answers fail to come."""
    timeout_s: float = 0.5
    attempts: int = 5
    """Attempts of one probe, the first one included."""
    full_probe_every: int = 8
    """Probe every n-th port at every hop, to find differences at hops that seem shared."""
    parallel: int = 4
    """Ports under way at a time."""
    silent_end: int = 3
    """Hops without any answer that end a path of unknown length."""
    distance: int = 0
    """Hops to the destination, itself included, where that is known; 0: it is found out first."""

    @property
    def whole_ports(self) -> int:
        """Ports that are asked at every hop before a hop counts as shared."""
        return source_ports.stop_after(1, self.risk) if self.risk else self.max_ports


@dataclass(frozen=True)
class Probe:
    """One probe to send."""

    token: int
    ttl: int
    port: int
    """0: an echo request."""


@dataclass(frozen=True)
class SearchResult:
    """Outcome of a search."""

    ports: dict[int, Hops]
    """Source port -> its path, in the order of probing."""
    distance: int
    """Hops to the destination, itself included; 0: unknown."""
    probes: int
    """Packets sent."""
    lost: int
    """Packets that remained without an answer."""
    missed_risk: float
    """Bound on the probability that there is another path."""
    answered: float
    """Share of the hops that are known."""
    sprayed: bool
    """Packets of one port took several ways: the port does not choose the path."""
    rtt_s: dict[Hops, float]
    """Least time to the last answering hop of a path."""
    unconfirmed: int = 0
    """Unsolicited answers, and routers that no second answer confirmed."""

    @property
    def paths(self) -> dict[Hops, tuple[int, ...]]:
        """Path -> its ports, in the order of the first port."""
        grouped: dict[Hops, list[int]] = {}
        for port, hops in self.ports.items():
            grouped.setdefault(hops, []).append(port)
        return {hops: tuple(ports) for hops, ports in grouped.items()}

    @property
    def confidence(self) -> float:
        """0 to 1: every path found, every hop known, one way per port."""
        return 0.0 if self.sprayed else (1 - self.missed_risk) * self.answered


class Search:
    """One search (see the module).  `ports`: source ports to try, in order."""

    def __init__(
        self, ports: Iterable[int], settings: SearchSettings | None = None, *, rng: Random
    ) -> None:
        """`rng`: of tokens; whoever can foretell it can make up answers."""
        self._set = settings or SearchSettings()
        self._rng = rng
        self.prefix = rng.randrange(1, 1 << 16)
        """Upper half of all tokens of this search."""
        self._unasked = 0
        self._source = iter(ports)
        self._depths: dict[int, Depth] = {}
        # (port, ttl, attempt) to be sent.
        self._queue: deque[tuple[int, int, int]] = deque()
        # token -> the same and when it was sent.
        self._flying: dict[int, tuple[int, int, int, float]] = {}
        self._under_way: dict[int, Port] = {}
        self._complete: dict[int, Port] = {}
        self._tried = 0
        self._probes = self._lost = 0
        self._distance = self._set.distance
        self._measuring = not self._distance
        self._unanswered = 0
        self._checks: set[tuple[int, int]] = set()
        self._sprayed = False
        self._rtt: dict[int, float] = {}
        self._exhausted = False
        self._verified = False
        if self._measuring:
            self._queue.append((0, 1, 1))

    @property
    def done(self) -> bool:
        """Whether nothing is left to send or to wait for."""
        return self._verified and not (self._queue or self._flying or self._under_way)

    def due(self, now: float) -> list[Probe]:
        """Return the probes to send at `now`, seconds of any clock that only grows."""
        self._expire(now)
        self._fill()
        out: list[Probe] = []
        asks, self._queue = [*self._queue], deque()
        self._rng.shuffle(asks)
        for port, ttl, attempt in asks:
            depth = self._depth(ttl)
            if depth.next_s > now:
                self._queue.append((port, ttl, attempt))
                continue
            depth.next_s = max(now, depth.next_s) + depth.gap_s
            token = self._next_token()
            self._flying[token] = (port, ttl, attempt, now)
            self._probes += 1
            out.append(Probe(token, ttl, port))
        return out

    def wake(self, now: float) -> float:
        """Return when to call `due` again if no answer arrives before."""
        times = [self._depth(ttl).next_s for _, ttl, _ in self._queue]
        times += [sent + self._set.timeout_s for *_, sent in self._flying.values()]
        return max(now, min(times, default=now))

    def heard(self, reply: Reply, now: float) -> None:
        """Take an answer; unsolicited ones are ignored."""
        flying = self._flying.get(reply.token)
        if flying is None or flying[0] != reply.port or reply.ttl > flying[1]:
            self._unasked += 1
            return
        del self._flying[reply.token]
        port, ttl, attempt, sent = flying
        depth = self._depth(ttl)
        depth.streak += 1
        if depth.streak >= 10:
            depth.streak = 0
            depth.gap_s = max(1 / self._set.per_hop_pps, depth.gap_s * 0.7)
        echo = port == 0
        if (echo or reply.kind is not Kind.HOP) and not depth.agreed(echo=echo, kind=reply.kind):
            self._again(port, ttl, attempt)
            return
        if port == 0:
            self._echoed(ttl, reply)
            return
        if reply.kind is not Kind.HOP:
            # It arrived, or was refused: there is nothing behind.
            self._ends_at(ttl if reply.kind is Kind.REACHED else ttl + 1)
            if reply.kind is Kind.REACHED:
                self._settle(port)
                return
        if (port, ttl) not in self._checks and not depth.routers[reply.responder]:
            claims = depth.claims.setdefault(reply.responder, [])
            claims.append((port, now - sent))
            if len(claims) < MIN_ANSWERS:
                self._again(port, ttl, attempt)
                return
            for other, rtt in depth.claims.pop(reply.responder)[:-1]:
                self._met(other, ttl, reply.responder, rtt)
        self._met(port, ttl, reply.responder, now - sent)

    def result(self) -> SearchResult:
        """Return what is known so far."""
        told = {port: self._hops(entry) for port, entry in self._complete.items()}
        ways = told_apart(Counter(told.values()))
        known = sum(hop != SILENT for hops in told.values() for hop in hops)
        total = sum(len(hops) for hops in told.values())
        ports = {port: hops for port, hops in told.items() if hops in ways}
        rtt: dict[Hops, float] = {}
        for port, hops in ports.items():
            if port in self._rtt:
                rtt[hops] = min(rtt.get(hops, self._rtt[port]), self._rtt[port])
        return SearchResult(
            ports=ports,
            distance=self._distance,
            probes=self._probes,
            lost=self._lost,
            missed_risk=source_ports.missed_risk(len(set(ports.values())), len(ports)),
            answered=known / total if total else 0.0,
            sprayed=self._sprayed,
            rtt_s=rtt,
            unconfirmed=self._unasked + sum(len(d.claims) for d in self._depths.values()),
        )

    # How far away

    def _echoed(self, ttl: int, reply: Reply) -> None:
        self._unanswered = 0
        if reply.kind is Kind.HOP:
            self._ask_distance(ttl + 1)
            return
        if reply.kind is Kind.REACHED:
            self._distance = ttl
        self._measuring = False

    def _ask_distance(self, ttl: int) -> None:
        if ttl > self._set.max_hops or self._unanswered == self._set.silent_end:
            self._measuring = False
        else:
            self._queue.append((0, ttl, 1))

    def _ends_at(self, ttl: int) -> None:
        if not self._distance or ttl < self._distance:
            self._distance = ttl
            for entry in [*self._under_way.values(), *self._complete.values()]:
                entry.known = {t: hop for t, hop in entry.known.items() if t < ttl}
            self._queue = deque(ask for ask in self._queue if ask[1] < ttl)
            # What was missing of some may have been beyond the end.
            for number in list(self._under_way):
                self._settle(number)

    @property
    def _last_hop(self) -> int:
        # The last distance to ask at.
        return (self._distance or self._set.max_hops + 1) - 1

    # Ports

    def _fill(self) -> None:
        if self._measuring:
            return
        while len(self._under_way) < self._set.parallel and not self._content():
            number = next(self._source, None)
            if number is None or self._tried >= self._set.max_ports:
                self._exhausted = True
                break
            self._tried += 1
            whole = (
                self._tried <= self._set.whole_ports or not self._tried % self._set.full_probe_every
            )
            self._under_way[number] = Port(number, whole)
            self._settle(number)
        if not (self._under_way or self._verified):
            self._verified = True
            self._verify()

    def _content(self) -> bool:
        if self._exhausted or not self._set.risk:
            return self._exhausted
        if not self._complete:
            return self._tried >= self._set.whole_ports + self._set.parallel
        found = len({self._hops(entry) for entry in self._complete.values()})
        return len(self._complete) >= source_ports.stop_after(found, self._set.risk)

    def _settle(self, number: int) -> None:
        # Ask for what is still unknown of a port, or file it as complete.
        entry = self._under_way.get(number)
        if entry is None:
            return
        missing = [ttl for ttl in self._wanted(entry) if ttl not in entry.known]
        for ttl in missing:
            if ttl not in entry.asked:
                entry.asked.add(ttl)
                self._queue.append((number, ttl, 1))
                if not self._distance and ttl > 1:
                    break  # one hop at a time while nobody knows where it ends
        if not missing:
            del self._under_way[number]
            self._complete[number] = entry

    def _entry(self, number: int) -> Port:
        return self._under_way.get(number) or self._complete[number]

    def _wanted(self, entry: Port) -> list[int]:
        end = self._last_hop
        if not self._distance:
            end = min(end, self._silent_from() - 1)
        return [
            ttl
            for ttl in range(1, end + 1)
            if not self._depth(ttl).silent and (entry.whole or not self._shared(ttl))
        ]

    def _shared(self, ttl: int) -> bool:
        depth = self._depth(ttl)
        enough = depth.routers.total() >= self._set.whole_ports
        return enough and len(depth.routers) == 1 and not depth.unanswered

    def _silent_from(self) -> int:
        # Where so many hops are silent in a row that the destination must be before them.
        row = 0
        for ttl in range(1, self._set.max_hops + 1):
            row = row + 1 if self._depth(ttl).silent else 0
            if row == self._set.silent_end:
                return ttl - row + 1
        return self._set.max_hops + 1

    def _met(self, port: int, ttl: int, router: str, rtt: float) -> None:
        if (port, ttl) in self._checks:
            self._checks.discard((port, ttl))
            before = self._entry(port).known.get(ttl)
            known = router in self._depth(ttl).routers
            self._sprayed |= known and before is not None and before != router
            return
        entry = self._entry(port)
        depth = self._depth(ttl)
        skipped = self._shared(ttl) or depth.silent
        depth.routers[router] += entry.known.get(ttl) != router
        depth.silent = False
        entry.known[ttl] = router
        if ttl == max(entry.known):
            self._rtt[port] = rtt
        if skipped and not self._shared(ttl):
            self._reopen(ttl)
        self._settle(port)

    def _reopen(self, ttl: int) -> None:
        # A hop that seemed shared, or silent, is not: whoever skipped it has to ask.
        for number in [n for n, e in self._complete.items() if ttl not in e.known]:
            entry = self._complete.pop(number)
            self._under_way[number] = entry
        for number in list(self._under_way):
            self._settle(number)

    def _verify(self) -> None:
        # Ask a few ports again where ways part: does a port stay on its way?
        for number, entry in list(self._complete.items())[:VERIFIED_PORTS]:
            for ttl, hop in entry.known.items():
                if hop != SILENT and len(self._depth(ttl).routers) > 1:
                    self._checks.add((number, ttl))
                    self._queue.append((number, ttl, 1))
                    break

    # Time

    def _expire(self, now: float) -> None:
        late = [t for t, f in self._flying.items() if f[3] + self._set.timeout_s <= now]
        for token in late:
            port, ttl, attempt, _ = self._flying.pop(token)
            self._lost += 1
            depth = self._depth(ttl)
            depth.streak = 0
            depth.gap_s = min(SLOWEST_S, depth.gap_s * 2)
            self._again(port, ttl, attempt)

    def _again(self, port: int, ttl: int, attempt: int) -> None:
        # Ask once more, or give up.
        if attempt < self._patience(port, self._depth(ttl)):
            self._queue.append((port, ttl, attempt + 1))
        elif port == 0:
            self._unanswered += 1
            self._ask_distance(ttl + 1)
        else:
            self._gave_up(port, ttl)

    def _patience(self, port: int, depth: Depth) -> int:
        # Attempts: few where nobody has answered yet, many where somebody does.
        answers = depth.routers or depth.claims if port else depth.said
        return self._set.attempts if answers else min(3, self._set.attempts)

    def _gave_up(self, port: int, ttl: int) -> None:
        if (port, ttl) in self._checks:
            self._checks.discard((port, ttl))
            return
        depth = self._depth(ttl)
        if depth.routers:
            self._entry(port).known[ttl] = SILENT
            depth.unanswered += 1
            if depth.unanswered == 1:
                self._reopen(ttl)
        else:
            self._entry(port).asked.discard(ttl)
            depth.silent = True
            depth.gap_s = 1 / self._set.per_hop_pps
        for number in list(self._under_way):
            self._settle(number)

    def _depth(self, ttl: int) -> Depth:
        if ttl not in self._depths:
            self._depths[ttl] = Depth(1 / self._set.per_hop_pps)
        return self._depths[ttl]

    def _hops(self, entry: Port) -> Hops:
        answering = (ttl for ttl, depth in self._depths.items() if depth.routers)
        end = min(self._last_hop, max(answering, default=0))
        return tuple(self._hop(entry, ttl) for ttl in range(1, end + 1))

    def _hop(self, entry: Port, ttl: int) -> str:
        # Whom the port met, or would have: where all meet the same router most do not ask.
        routers = self._depth(ttl).routers
        common = next(iter(routers)) if self._shared(ttl) else SILENT
        return entry.known.get(ttl, common)

    def _next_token(self) -> int:
        while True:
            token = self.prefix << 16 | self._rng.randrange(1, 1 << 16)
            if token not in self._flying:
                return token


def differ(one: Hops, other: Hops) -> bool:
    """Check whether two paths certainly differ: different routers answered at one distance."""
    return any(
        here != there and SILENT not in (here, there)
        for here, there in zip(one, other, strict=False)
    )


def told_apart(ports: Mapping[Hops, int]) -> set[Hops]:
    """Return the paths that certainly differ; `ports`: path -> how many ports showed it.

    A path with silent hops may be another one whose answers were lost: that one counts.
    """
    apart: list[Hops] = []
    for hops in sorted(ports, key=lambda hops: (hops.count(SILENT), -ports[hops], hops)):
        if all(differ(hops, known) for known in apart):
            apart.append(hops)
    return set(apart)
