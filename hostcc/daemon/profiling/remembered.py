"""What jobs were like when they ran before, by name, user and shape.  Pure but for being mutable.

A job that comes again is planned by this from its first bytes, until it is measured, or sends so
differently that it cannot be the same.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from hostcc.coord.core.payloads import MAX_GPUS, Seconds, Volume
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.limits import FLOP_MAX, JOB_NAME
from hostcc.model import JobProfile

MAX_REMEMBERED, MAX_PER_UID = 1024, 64
"""Jobs that are remembered in all, and of one user; root may have all of them."""
MAX_DESTINATIONS = 64
"""Destinations that are remembered of a job; of one with more, none are."""
SAME_FACTOR = 1.05
"""Figures that differ by less than this factor are not remembered anew."""
MIN_SENT_FRACTION = 0.05
"""Of the bytes of an iteration: a job is taken for the one that ran before once it has sent so
much.  Before that its processes only find each other."""
MAX_RATE_FACTOR = 1.5
"""A job that sends this many times as much as it did before, or as little, is another one."""
MINOR_SHARE = 0.05
"""Destinations with a smaller share of a job's bytes say nothing of where it sends."""

Destination = Annotated[str, Meta(pattern=r"^[0-9a-f:.]{2,45}\Z")]
Period = Annotated[float, Meta(gt=0, le=86_400.0)]
DeclaredFlop = Annotated[float, Meta(gt=0, le=FLOP_MAX)]


class JobKey(NamedTuple):
    """What is known of a job at its first byte, and what it is recognised by."""

    name: str
    uid: int
    found_by: str
    """`hostcc run` or a kind of group."""
    flops: float | None
    """FLOP of an iteration, as declared; None: not declared."""


class RememberedJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One job as it was measured last on this host."""

    name: Annotated[str, Meta(pattern=JOB_NAME)]
    uid: Annotated[int, Meta(ge=0, lt=2**32)]
    found_by: Annotated[str, Meta(min_length=1, max_length=64)]
    flops: DeclaredFlop | None = None
    """Declared FLOP of an iteration."""
    period_s: Period
    compute_s: Seconds
    comm_start_s: Seconds
    comm_s: Seconds
    work: Annotated[float, Meta(ge=0, le=FLOP_MAX)]
    """FLOP of an iteration; 0: unknown."""
    gpus: Annotated[float, Meta(ge=0, le=MAX_GPUS)]
    confidence: Annotated[float, Meta(gt=0, le=1)]
    tx_bytes: Volume
    """Sent in an iteration."""
    to: Annotated[tuple[tuple[Destination, Volume], ...], Meta(max_length=MAX_DESTINATIONS)] = ()
    """(Destination, bytes of these); empty: there were too many."""

    def __post_init__(self) -> None:
        """Check what no single field shows.  Raises ValueError."""
        if self.comm_start_s > self.compute_s:
            raise ValueError("expected comm_start_s to be at most compute_s")

    @property
    def key(self) -> JobKey:
        """What it is recognised by."""
        return JobKey(self.name, self.uid, self.found_by, self.flops)


def key_of(job: LiveJob) -> JobKey | None:
    """Return what a job would be recognised by; None: nobody answers for its name."""
    if job.uid is None:
        return None
    return JobKey(job.name, job.uid, job.how.partition(":")[0], job.flops)


def learned(key: JobKey, of: JobProfile) -> RememberedJob | None:
    """Return what to remember of a measurement; None: it is of no job that could be."""
    to = of.bytes_to if len(of.bytes_to) <= MAX_DESTINATIONS else ()
    figures = {
        **key._asdict(),
        "period_s": of.period_s,
        "compute_s": of.compute_s,
        "comm_start_s": of.comm_start_s,
        "comm_s": of.comm_s,
        "work": of.work,
        "gpus": of.gpus,
        "confidence": of.confidence,
        "tx_bytes": of.tx_bytes,
        "to": to,
    }
    try:
        return msgspec.convert(figures, RememberedJob)
    except msgspec.ValidationError:
        return None


def recalled(
    known: RememberedJob, job: LiveJob, shares: Iterable[tuple[str, float]], host: str, at: float
) -> JobProfile:
    """Return the profile of a job that was seen before.

    `shares`: (destination, part of what is sent to it) so far.  Where these are among those of
    before, which one iteration may not show all of, the job is taken to send as it did; else the
    bytes of before are divided by them.  `at`: seconds since the epoch.
    """
    now = [(to, share) for to, share in shares if share]
    is_as_before = {to for to, share in now if share >= MINOR_SHARE} <= {to for to, _ in known.to}
    divided = tuple(sorted((to, known.tx_bytes * share) for to, share in now))
    return JobProfile(
        job=job.name,
        host=host,
        compute_s=known.compute_s,
        comm_start_s=known.comm_start_s,
        work=known.work,
        gpus=known.gpus,
        period_s=known.period_s,
        comm_s=known.comm_s,
        bytes_to=known.to if is_as_before else divided,
        weight=job.weight,
        confidence=known.confidence,
        at=at,
        recalled=True,
    )


def begin_bytes(known: RememberedJob) -> float:
    """Return how much a job has to have sent, so that it can be of an iteration."""
    return MIN_SENT_FRACTION * known.tx_bytes


def has_begun(known: RememberedJob, sent_bytes: float) -> bool:
    """Say whether what a job has sent so far can be of an iteration."""
    return sent_bytes >= begin_bytes(known)


def contradicts(
    known: RememberedJob, sent_bytes: float, elapsed_s: float, guess: JobProfile | None
) -> bool:
    """Say whether a job sends so much more or less than before that it is another one.

    `sent_bytes`: in the `elapsed_s` from its first byte to its last so far; `guess`: what its
    bursts look like, None: too few were seen.  One iteration more or less is no difference.  A job
    that pauses between its start and its first iteration has sent too little as well; so its bursts
    have to say the same.
    """
    iterations = elapsed_s / known.period_s
    if not known.tx_bytes:
        return False
    if sent_bytes >= MAX_RATE_FACTOR * known.tx_bytes * (iterations + 1):
        return True
    if sent_bytes > known.tx_bytes * (iterations - 1) / MAX_RATE_FACTOR or guess is None:
        return False
    # A guess without silences averages over such a pause, too.
    tells = guess.period_s > 0 and (guess.comm_start_s > 0 or known.comm_start_s == 0)
    before = known.tx_bytes / known.period_s
    return tells and 0 < guess.tx_bytes / guess.period_s <= before / MAX_RATE_FACTOR


class RememberedJobs:
    """The jobs seen last: bounded for each user and in all; who comes again is the newest."""

    def __init__(self, most: int = MAX_REMEMBERED, per_uid: int = MAX_PER_UID) -> None:
        """`most`: jobs in all; `per_uid`: of one user that is not root."""
        self._most, self._per_uid = most, per_uid
        self._jobs = OrderedDict[JobKey, RememberedJob]()
        """The newest last."""
        self._held = Counter[int]()
        """Jobs of each user."""

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._jobs)

    @property
    def jobs(self) -> tuple[RememberedJob, ...]:
        """All, the newest last."""
        return tuple(self._jobs.values())

    def keep(self, one: RememberedJob) -> bool:
        """Remember a job; return whether its figures were not known, within SAME_FACTOR."""
        before = self._jobs.get(one.key)
        if before is not None and _alike(before, one):
            self._jobs.move_to_end(one.key)
            return False
        if before is None:
            self._held[one.uid] += 1
        self._jobs[one.key] = one
        self._jobs.move_to_end(one.key)
        if one.uid and self._held[one.uid] > self._per_uid:
            self._forget_oldest_of(one.uid)
        while len(self._jobs) > self._most:
            largest = max(self._held.values())
            crowd = {uid for uid, count in self._held.items() if count == largest}
            self._forget_oldest_of(*crowd)
        return True

    def add_older(self, jobs: Iterable[RememberedJob]) -> None:
        """Remember jobs of earlier, the newest last, behind those that are known."""
        newer = self.jobs
        self._jobs.clear()
        self._held.clear()
        for one in (*jobs, *newer):
            self.keep(one)

    def recall(self, key: JobKey) -> RememberedJob | None:
        """Return what is remembered of a job; it is the newest now."""
        found = self._jobs.get(key)
        if found is not None:
            self._jobs.move_to_end(key)
        return found

    def _forget_oldest_of(self, *uids: int) -> None:
        oldest = next(key for key in self._jobs if key.uid in uids)
        del self._jobs[oldest]
        self._held[oldest.uid] -= 1
        if not self._held[oldest.uid]:
            del self._held[oldest.uid]


def _alike(one: RememberedJob, other: RememberedJob) -> bool:
    def near(x: float, y: float) -> bool:
        return x == y or (min(x, y) > 0 and max(x, y) < SAME_FACTOR * min(x, y))

    figures = ("period_s", "compute_s", "comm_start_s", "comm_s", "work", "gpus", "tx_bytes")
    return [to for to, _ in one.to] == [to for to, _ in other.to] and all(
        near(getattr(one, name), getattr(other, name)) for name in figures
    )
