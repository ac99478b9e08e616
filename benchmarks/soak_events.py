"""Pure: events of two hosts in a soak, drawn from a seed.

Every condition that begins ends again, at the latest with the run, and conditions that exclude
each other do not overlap: each kind has a lane of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

HOSTS = ("h1", "h2")
SPINES = 2
MEAN_GAP_S = 1.2
"""Between two beginnings."""
MOST_JOBS = 6
"""At a time: two processors carry them and the agents."""
FIRST_PORT = 5400
PORTS = 2000
"""As many jobs until a port is used again."""


class Kind(StrEnum):
    """What happens."""

    JOB = "job"
    STOP = "agent stopped"
    KILL = "agent killed"
    PAUSE = "agent paused"
    RELOAD = "configuration"
    DISK = "run directory full"
    CLOCK = "clock stepped"
    PATH = "path down"
    LOSS = "packets lost"


class StartMode(StrEnum):
    """How a job is started or found, and in which network namespace."""

    RUN = "hostcc run"
    FOUND = "found by its environment"
    SPACE = "hostcc run, in a network namespace of its own"


AT_ONCE = frozenset({Kind.RELOAD, Kind.CLOCK})
"""They have no end."""
WEIGHTS = {
    Kind.JOB: 10, Kind.STOP: 0.4, Kind.KILL: 0.6, Kind.PAUSE: 3, Kind.RELOAD: 2,
    Kind.DISK: 1, Kind.CLOCK: 1, Kind.PATH: 2, Kind.LOSS: 2,
}  # fmt: skip
"""Agents live for a minute or two: long enough for something to grow."""
LASTS_S = {
    Kind.JOB: (5.0, 60.0), Kind.STOP: (0.0, 10.0), Kind.KILL: (0.0, 10.0), Kind.PAUSE: (0.3, 10.0),
    Kind.DISK: (1.0, 15.0), Kind.PATH: (1.0, 15.0), Kind.LOSS: (2.0, 15.0),
}  # fmt: skip
STEPS_S = (1, -1, 60, -60, 3600, -3600, 40_000, -40_000)
"""Of a clock, against the machine's; the next step begins there again."""
LOST_PERMILLE = (5, 20, 80)


@dataclass(frozen=True)
class Job:
    """A distributed job: one end sends to the other."""

    name: str
    how: StartMode
    sender: str
    receiver: str
    """The other host; in a namespace of its own the same one."""
    port: int
    connections: int
    period_s: float
    burst_bytes: int
    """Of all its connections together."""


@dataclass(frozen=True)
class Event:
    """One thing begins or ends."""

    at_s: float
    number: int
    """Of its beginning, which its end shares."""
    kind: Kind
    host: str
    """Whose; of a path its spine, of a job its sender."""
    begins: bool = True
    amount: int = 0
    """Of a step s, of loss permille; of a configuration anything, to choose it by."""
    job: Job | None = field(default=None, compare=False)

    def __str__(self) -> str:
        what = f" {self.amount}" if self.amount and self.begins else ""
        name = f" {self.job.name} ({self.job.how})" if self.job else ""
        end = "" if self.begins else ", over"
        return f"event {self.number} at {self.at_s:.1f} s: {self.kind} {self.host}{what}{name}{end}"


def events(seed: int, seconds: float) -> list[Event]:
    """All of them in their order; none is later than `seconds`, at which everything is over."""
    made: list[Event] = []
    for begin, end in _episodes(random.Random(seed), seconds):
        made.append(begin)
        if end is not None:
            made.append(end)
    # What ends at once with everything else ends first: a job outlives what befell it.
    return sorted(made, key=lambda one: (one.at_s, one.kind is Kind.JOB, one.begins, one.number))


def _episodes(draw: random.Random, seconds: float) -> Iterator[tuple[Event, Event | None]]:
    at_s, number = draw.expovariate(1 / MEAN_GAP_S), 0
    busy: dict[str, float] = {}
    while at_s < seconds:
        kind = draw.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        host = f"spine{draw.randint(1, SPINES)}" if kind is Kind.PATH else draw.choice(HOSTS)
        ends_s = min(seconds, at_s + (draw.uniform(*LASTS_S[kind]) if kind in LASTS_S else 0.0))
        amount = _amount(draw, kind)
        job = _job(draw, number, host) if kind is Kind.JOB else None
        lane = next((x for x in _lanes(kind, host) if busy.get(x, 0.0) <= at_s), None)
        if lane is not None:
            busy[lane] = ends_s
            begin = Event(at_s, number, kind, host, amount=amount, job=job)
            over = Event(ends_s, number, kind, host, begins=False, job=job)
            yield begin, None if kind in AT_ONCE else over
            number += 1
        at_s += draw.expovariate(1 / MEAN_GAP_S)


def _lanes(kind: Kind, host: str) -> list[str]:
    """One of these has to be free; at most one path is down, so that hosts reach each other."""
    match kind:
        case Kind.JOB:
            return [f"job {number}" for number in range(MOST_JOBS)]
        case Kind.PATH:
            return ["path"]
        case Kind.STOP | Kind.KILL | Kind.PAUSE | Kind.RELOAD:
            return [f"agent {host}"]
        case _:
            return [f"{kind} {host}"]


def _amount(draw: random.Random, kind: Kind) -> int:
    match kind:
        case Kind.CLOCK:
            return draw.choice(STEPS_S)
        case Kind.LOSS:
            return draw.choice(LOST_PERMILLE)
        case Kind.RELOAD:
            return draw.randrange(1 << 16)
    return 0


def _job(draw: random.Random, number: int, host: str) -> Job:
    how = draw.choices([*StartMode], [3, 2, 1])[0]
    other = host if how is StartMode.SPACE else HOSTS[1 - HOSTS.index(host)]
    return Job(
        name=f"job-{number}",
        how=how,
        sender=host,
        receiver=other,
        port=FIRST_PORT + number % PORTS,
        connections=draw.randint(1, 3),
        period_s=draw.uniform(0.2, 0.8),
        burst_bytes=draw.choice((1 << 18, 1 << 19, 1 << 20)),
    )
