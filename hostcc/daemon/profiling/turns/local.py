"""Whose turn it is to be profiled: one job at a time, each for a bounded time.  Pure.

A job whose traffic mixes with others' on a link is measured wrongly, so a new one goes first
until it is known (Crux, SIGCOMM'24, section 5); again when it has changed since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

ENOUGH = 0.7
"""A job is known from this confidence on."""
REST = 10.0
"""After a change, a job's next turn is not before so many longest turns after its last one."""
UNFINISHED = 3
"""Turns that a job gets which each time fell silent before it was known."""


class Candidate(NamedTuple):
    """What the choice depends on, of one job."""

    sending: bool
    """Whether it has sent anything lately."""
    confidence: float
    """Of its profile."""
    changes: int
    """How often its pattern has changed."""


@dataclass(frozen=True)
class TurnHistory:
    """The turns that a job had."""

    changes: int
    """Of its pattern, when the last one ended."""
    ended_s: float
    silent: bool
    """Whether it ended because the job sent nothing."""
    count: int


@dataclass(frozen=True)
class RemoteTurns:
    """What other hosts' turns mean for those here."""

    behind: frozenset[str] = frozenset()
    """Jobs that may not go now."""
    since: Mapping[str, float] = field(default_factory=dict)
    """Job whose turn it is elsewhere -> since when, on this host's clock: it is the same turn, and
    none is given to it here when that has lasted too long or (-inf) nobody knows how long."""


@dataclass(frozen=True)
class Turns:
    """Whose turn it is, and who had one."""

    job: str = ""
    since_s: float = 0.0
    had: Mapping[str, TurnHistory] = field(default_factory=dict)


def step(
    turns: Turns,
    now_s: float,
    jobs: Mapping[str, Candidate],
    longest_s: float,
    others: RemoteTurns = RemoteTurns(),
) -> Turns:
    """Whose turn it is now; `longest_s` 0: nobody's, ever."""
    had = {name: last for name, last in turns.had.items() if name in jobs}
    turns = replace(turns, had=had)
    current = jobs.get(turns.job)
    if current is not None:
        known = current.confidence >= ENOUGH
        if not known and now_s - turns.since_s < longest_s and current.sending:
            if turns.job not in others.behind:
                return turns
        else:
            earlier = had[turns.job].count if turns.job in had else 0
            ended = TurnHistory(current.changes, now_s, not (known or current.sending), earlier + 1)
            had = {**had, turns.job: ended}
    turns = Turns(had=had)
    began_s = {name: min(now_s, others.since.get(name, now_s)) for name in jobs}
    free = [
        name
        for name in waiting(turns, now_s, jobs, longest_s)
        if name not in others.behind and now_s - began_s[name] < longest_s
    ]
    if not free:
        return turns
    chosen = min(free, key=lambda name: (name in had, tie_break_hash(name)))
    return replace(turns, job=chosen, since_s=began_s[chosen])


def waiting(
    turns: Turns, now_s: float, jobs: Mapping[str, Candidate], longest_s: float
) -> list[str]:
    """Jobs that would take a turn now."""
    return [
        name
        for name, job in jobs.items()
        if longest_s > 0
        and name != turns.job
        and job.sending
        and job.confidence < ENOUGH
        and _due(job, turns.had.get(name), now_s, longest_s)
    ]


def tie_break_hash(name: str) -> bytes:
    """A job's place in the order of turns: the same on every host."""
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


def _due(job: Candidate, last: TurnHistory | None, now_s: float, longest_s: float) -> bool:
    if last is None:
        return True
    if last.silent and last.count < UNFINISHED:
        return now_s - last.ended_s >= longest_s
    return job.changes > last.changes and now_s - last.ended_s >= REST * longest_s


def preferred(turns: Turns, jobs: Mapping[str, Candidate], *, crowded: bool = False) -> str:
    """The job that goes first because of its turn; nobody where no other job sends, here or
    (`crowded`) where it goes."""
    others = any(job.sending for name, job in jobs.items() if name != turns.job)
    return turns.job if others or crowded else ""
