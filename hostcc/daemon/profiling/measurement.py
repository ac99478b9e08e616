"""Lists the parts that measure jobs on this host, and answers what they know of them."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict

from hostcc.answers.jobs import DetailedJob, JobRow, Profile, RecordedSeries
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.profile_store import ExpectedJob
from hostcc.daemon.jobs.iteration_times import Iteration
from hostcc.daemon.profiling import profiles
from hostcc.daemon.profiling.discovery import Discovery
from hostcc.daemon.profiling.gauges import gauges
from hostcc.daemon.profiling.gpu_work import Gpus
from hostcc.daemon.profiling.iteration_marks import MarkListener
from hostcc.daemon.profiling.job_memory import JobMemory
from hostcc.daemon.profiling.live_jobs import DiscoveryResult, LiveJob, live_jobs, owners
from hostcc.daemon.profiling.profiles import JobFacts, JobKnowledge
from hostcc.daemon.profiling.rdma_meter import Rdma
from hostcc.daemon.profiling.remembered import begin_bytes
from hostcc.daemon.profiling.traffic import Traffic
from hostcc.daemon.profiling.turns.cluster_turns import ClusterTurns
from hostcc.daemon.supervisor import Host, Part
from hostcc.errors import NoJobError
from hostcc.measure.discover.owners import Owners
from hostcc.measure.plain import circle
from hostcc.measure.work import activity
from hostcc.model import JobProfile
from hostcc.system.cgroups import CgroupTree

OWNERS_MAX_AGE_S = 2.0
"""Of the answer to which job each process belongs."""


class Measurement:
    """The parts that measure, and one place to ask them: the source of `ProfileStore`."""

    def __init__(
        self,
        host: Host,
        cluster: Cluster | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        """`begun`: called when a job that ran before has begun to send."""
        self._host = host
        self._seen = DiscoveryResult()
        self._jobs: tuple[int, tuple[object, ...], list[LiveJob]] = -1, (None,) * 3, []
        """Edition of the table, other objects that jobs depend on, and the jobs made of them."""
        self._owners: tuple[float, Owners] | None = None
        self.discovery = Discovery(host, self._seen)
        self.gpus = Gpus(host, self.owners, lambda: {job.name for job in self.jobs()})
        self.marking = MarkListener(host, self.owners)
        self.rdma = Rdma(host, self.owners)
        self.memory = JobMemory(host)
        self.traffic = Traffic(
            host,
            self.jobs,
            self._facts,
            self.rdma.track,
            elsewhere=ClusterTurns(cluster),
            memory=self.memory,
            begun=begun,
        )

    @property
    def parts(self) -> list[Part]:
        """All parts, in the order in which they start."""
        return [self.discovery, self.gpus, self.marking, self.rdma, self.memory, self.traffic]

    def jobs(self) -> list[LiveJob]:
        """Return every job of this host; the same list while nothing is new."""
        engine = self._host.engine
        if engine is None:
            return live_jobs(self._host, self._seen)
        about = (engine, self._host.config, self._seen.found)
        edition, known, jobs = self._jobs
        same = all(one is other for one, other in zip(about, known, strict=True))
        if edition != engine.table.edition or not same:
            jobs = live_jobs(self._host, self._seen)
            self._jobs = engine.table.edition, about, jobs
        return jobs

    def owners(self) -> Owners:
        """Return which job each process belongs to."""
        now = time.monotonic()
        if self._owners is None or now - self._owners[0] > OWNERS_MAX_AGE_S:
            self._owners = now, owners(self.jobs(), self._seen.found)
        return self._owners[1]

    def profiles(self) -> list[JobProfile]:
        """Return what was measured of each job, or guessed with a confidence of 0."""
        return self.traffic.profiles()

    def latest(self, name: str) -> JobProfile | None:
        """Return the same of one job, with where in its iterations it is now."""
        return self.traffic.latest(name)

    def links(self, name: str) -> dict[str, float | None]:
        """Return the links that a job sends over, and their rates, bits per second; None: unknown,
        or nothing enforces it.  A port of RoCE is the link of its network device."""
        known = self.traffic.known(name)
        ways = known.facts.ways.values() if known is not None else ()
        below = self.rdma.below
        return {
            below.get(way.link, way.link): None if way.nominal else way.speed_bps for way in ways
        }

    def by_rdma(self, name: str) -> bool:
        """Return whether the bytes that count of a job are those of its queue pairs."""
        known, other = self.traffic.known(name), self.rdma.track(name)
        return known is not None and other is not None and known.track is other.track

    def weights(self) -> dict[str, float]:
        """Return job -> weight, of all jobs that there are, measured or not."""
        return {job.name: job.weight for job in self.jobs()}

    def expected(self) -> dict[str, ExpectedJob]:
        """Return the jobs that ran before and are not measured yet."""
        return {
            name: ExpectedJob(frozenset(to for to, _ in known.to), begin_bytes(known))
            for name, known in self.memory.expected(self.jobs()).items()
        }

    def iteration(self, name: str) -> Iteration | None:
        """Return what an iteration of a job is like; None: that is not known well enough."""
        return self.traffic.iteration(name)

    def gauges(self, core: Any) -> Iterator[Any]:
        """Export what was measured as metrics; `core`: module prometheus_client.core."""
        return gauges(core, self.traffic.all_known())

    def rows(self, given: Sequence[JobRow]) -> list[JobRow]:
        """Add rows for jobs that are only measured; not for those that are about to be managed, or
        have just ended."""
        manages = self._host.engine is not None and self._host.config.discover.manage
        return [
            *given,
            *(row for row in self._more(given) if not manages or row.name in self._seen.unmanaged),
        ]

    def details(self, rows: Sequence[JobRow]) -> list[DetailedJob]:
        """Add to rows of jobs what was measured of each, and rows for jobs that have none."""
        live = {job.name: job for job in self.jobs()}
        return [
            DetailedJob(**asdict(row), **self._detail(row.name, live.get(row.name)))
            for row in [*rows, *self._more(rows)]
        ]

    def _more(self, rows: Sequence[JobRow]) -> list[JobRow]:
        listed = {row.name for row in rows}
        return [_row(job) for job in self.jobs() if job.name not in listed]

    def profile(self, name: str, series: bool) -> Profile:
        """Answer what is known of one job; with `series` also the bins that it comes from."""
        job = next((job for job in self.jobs() if job.name == name), None)
        if job is None:
            raise NoJobError(f"no job {name} on this host")
        if series:
            self.traffic.catch_up(name)
        known = self.traffic.known(name)
        is_kept = known is not None and known.track.watch is not None
        return Profile(
            job=name,
            **self._detail(name, job),
            circle=circle(known.measured) if known else None,
            recording=self._recording(known) if series and known and is_kept else None,
        )

    def _detail(self, name: str, job: LiveJob | None) -> dict[str, Any]:
        known = self.traffic.known(name)
        turns = self.traffic.turns
        return {
            "how": job.how if job else None,
            "weight": job.weight if job else None,
            "managed": bool(job and job.slot),
            "unmanaged_reason": self._seen.unmanaged.get(name),
            "profiling": turns.job == name,
            "profile": profiles.summary(known) if known else None,
            "profile_reason": None if known else self._why_not(name, job),
            "remembered": self.memory.recalled(name),
        }

    def _why_not(self, name: str, job: LiveJob | None) -> str:
        if off := self.traffic.disabled_reason():
            return off
        if self.traffic.looped(name):
            return f"{name} was seen to exchange over loopback only, which uses no link"
        if job is not None and not job.countable:
            return f"{name} is not managed, and its processes have no cgroup v2 of their own"
        return f"no traffic of {name} was seen yet"

    def _recording(self, known: JobKnowledge) -> RecordedSeries:
        of = known.track.history()
        busy = activity(known.facts.intervals)
        return RecordedSeries(
            bin_ns=of.bin_ns,
            start_ns=of.start_ns,
            tx=_packed(of.tx.astype("<i8")),
            rx=_packed(of.rx.astype("<i8")),
            links={one.name: one.bits_per_s for one in known.measured.links if one.bits_per_s},
            flop=known.work.flop,
            busy_start_s=_packed(busy.start_s.astype("<f8")),
            busy_end_s=_packed(busy.end_s.astype("<f8")),
            busy=_packed(busy.busy.astype("<f8")),
        )

    def _facts(self, name: str) -> JobFacts:
        return JobFacts(
            self.gpus.intervals(name),
            self.gpus.why,
            self._host.config.gpu.assumed_flops,
            self.marking.boundaries(name),
        )


def _row(job: LiveJob) -> JobRow:
    return JobRow(
        name=job.name,
        slot=None,
        cgroup=str(job.groups[0]) if job.groups else None,
        pids=sorted(pid for group in job.groups for pid in CgroupTree(group).pids(group)),
        local_ports=[],
        remote_ports=[],
        parameters=None,
    )


def _packed(values: npt.NDArray[np.generic]) -> str:
    return base64.b64encode(values.tobytes()).decode()
