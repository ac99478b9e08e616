"""Profiles of this host's jobs, between the parts that measure and those that publish or plan.

Profiling is asked for what it measured (`ProfileSource`), RDMA writes what queue pairs send, gates
how fast jobs send alone.  The profiles that leave here change seldom (hysteresis.py): each change
makes a new view and a new plan.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from hostcc.coord.core.payloads import PROFILE, Profile
from hostcc.daemon.gossip import profile_records, rdma_profiles
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.hysteresis import PublishedProfile, PublishedRecord, step
from hostcc.daemon.gossip.rdma_profiles import RdmaRates
from hostcc.model import JobProfile

READ_S = 0.5
"""Between two readings of what was measured."""
CHANGE_S = 6.0
"""Repeated changes are published when the wall clock passes a multiple of this, as on every other
host: of jobs that plans disturb the figures change together, and make one view and not ten."""


class ExpectedJob(NamedTuple):
    """A job that ran before, and is not measured yet."""

    to: frozenset[str]
    """Addresses that it sent to."""
    begin_bytes: float
    """Once it has sent so much it is taken for the one that ran before."""


class ProfileSource(Protocol):
    """What measures the jobs of this host; `profiling.measurement.Measurement` in an agent."""

    def profiles(self) -> Sequence[JobProfile]:
        """Return what was measured of each job, or guessed with a confidence of 0."""

    def latest(self, name: str) -> JobProfile | None:
        """Return the same of one job, with where in its iterations it is now."""

    def expected(self) -> Mapping[str, ExpectedJob]:
        """Return the jobs that ran before and are not measured yet."""

    def weights(self) -> Mapping[str, float]:
        """Return job -> weight, of all jobs that there are, measured or not."""


class ProfileStore:
    """Keeps one steady profile of each job, and the record that the gossip publishes of it."""

    def __init__(
        self,
        source: ProfileSource,
        cluster: Cluster,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`cluster`: knows what other hosts measured; clocks: seconds, `wall_clock` about the same
        on all hosts."""
        self._source, self._cluster = source, cluster
        self._clock, self._wall_clock = clock, wall_clock
        self.rdma: RdmaRates = {}
        """Written by the RDMA transport, after each reading of the counters."""
        self.lone_rates: Mapping[str, float] = {}
        """Job -> bytes/s of its bursts while no rival sends, as far as known.  Written by gates."""
        self._held: dict[str, PublishedProfile] = {}
        self._steady: list[JobProfile] = []
        self._due = -math.inf
        self._change_slot = 0
        self._measured_at: dict[str, float] = {}
        """Job that has a record -> when it was measured last, seconds."""

    def steady(self) -> list[JobProfile]:
        """Return what was measured of jobs, without noise: what this host plans by."""
        now = self._clock()
        if now >= self._due:
            self._due = now + READ_S
            measured = [self._slowest(one) for one in self._source.profiles()]
            before, self._change_slot = self._change_slot, int(self._wall_clock() // CHANGE_S)
            turn = self._change_slot != before
            self._held = step(self._held, measured, self._cluster.job, now, turn=turn)
            self._steady = [self._held[one.job].profile for one in measured]
        return self._steady

    def _slowest(self, measured: JobProfile) -> JobProfile:
        """The profile with a t of what limits the job most, be that no link that has a rate."""
        rate = self.lone_rates.get(measured.job)
        if not rate or measured.confidence <= 0 or measured.tx_bytes / rate <= measured.comm_s:
            return measured
        return replace(measured, comm_s=measured.tx_bytes / rate)

    def expire(self) -> None:
        """Have what was measured read anew: there is something that nobody should wait for."""
        self._due = -math.inf

    def latest(self, job: str) -> JobProfile | None:
        """Return what was measured of a job last, with where in its iterations it is now."""
        return self._source.latest(job)

    def expected(self) -> Mapping[str, ExpectedJob]:
        """Return the jobs that ran before and are not measured yet."""
        return self._source.expected()

    def published(self) -> list[JobProfile]:
        """Return the steady profiles completed by what is known of RDMA: what other hosts get."""
        steady = self.steady()
        if not self.rdma:
            return steady
        return rdma_profiles.merged(steady, self.rdma, self._source.weights())

    def records(self, members: Mapping[str, str]) -> dict[str, Profile]:
        """Return the record to publish of each job; `members`: address -> member, another object
        when it is another mapping.

        A job that has ended has none; one that lives on without being measured keeps it for
        `profile_records.KEEP_S`.
        """
        now, records = self._clock(), dict[str, Profile]()
        for one in self.published():
            self._measured_at[one.job] = now
            records[one.job] = self._record(one, members)
        for job in profile_records.ended(self._measured_at, self._source.weights(), now):
            del self._measured_at[job]
            records.pop(job, None)
        for job in self._measured_at.keys() - records.keys():
            if (before := self._published(job)) is not None:
                records[job] = before
        return records

    def _record(self, profile: JobProfile, members: Mapping[str, str]) -> Profile:
        """The record of a profile, made anew only from another profile or other members."""
        before, held = self._published(profile.job), self._held.get(profile.job)
        if held is not None and held.record is not None:
            old = held.record
            if old.profile is profile and old.members is members and old.content is before:
                return old.content
        content = profile_records.content(profile, before, members)
        if held is not None:
            record = PublishedRecord(profile, members, content)
            self._held[profile.job] = held._replace(record=record)
        return content

    def _published(self, job: str) -> Profile | None:
        told = self._cluster.published(PROFILE, job)
        return told if isinstance(told, Profile) else None
