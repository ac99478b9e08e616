"""Jobs' traffic metered and their profiles kept current: the part that the others lead to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hostcc.answers.links import ProfilingTurn
from hostcc.answers.parts import TrafficPart
from hostcc.config.schema import port_rules
from hostcc.coord.core.payloads import ProfilingClaim
from hostcc.daemon.enforcement import Engine
from hostcc.daemon.jobs.iteration_times import Iteration
from hostcc.daemon.profiling import profiles
from hostcc.daemon.profiling.analysis_budget import AnalysisRequest
from hostcc.daemon.profiling.analysis_run import analyse_all
from hostcc.daemon.profiling.analysis_schedule import ANALYSES_PER_TICK, AnalysisSchedule
from hostcc.daemon.profiling.boundary_hints import BoundaryHints
from hostcc.daemon.profiling.job_memory import JobMemory
from hostcc.daemon.profiling.live_jobs import LiveJob, host_name
from hostcc.daemon.profiling.metering import JobReading, Metering, Reading
from hostcc.daemon.profiling.profile_cache import ProfileCache
from hostcc.daemon.profiling.profiles import JobFacts, JobKnowledge
from hostcc.daemon.profiling.rdma_meter import BypassTraffic
from hostcc.daemon.profiling.remembered import RememberedJob, has_begun
from hostcc.daemon.profiling.route_search import RouteSearch
from hostcc.daemon.profiling.routes import Route
from hostcc.daemon.profiling.tracks import MAX_WAIT_S, Track, apart
from hostcc.daemon.profiling.turns import local
from hostcc.daemon.profiling.turns.cluster_turns import ClusterTurns
from hostcc.daemon.profiling.turns.local import ENOUGH, Candidate, Turns
from hostcc.daemon.supervisor import Host, in_thread
from hostcc.log import get_logger
from hostcc.measure.destinations import Address
from hostcc.measure.measured_profile import Link
from hostcc.measure.meter import TX, ByteMeter
from hostcc.measure.series import NS
from hostcc.model import Difference, JobProfile
from hostcc.system.cgroups import CgroupTree, resolve_root

log = get_logger("traffic")

READ_S = 0.5
"""Between readings, seconds: more than twice per ring of the meter."""
MIN_READS_PER_BATCH = 2
"""Readings of the meter are handed to the jobs by so many at least, while no other job begins to
send and no more jobs are unknown than can be analysed in one tick."""
READS_PER_JOB = 0.04
"""While all jobs are known, by so many more for each job."""
MAX_PENDING_CELLS = 1 << 16
"""Bins of destinations that wait to be handed over at most, which take 2 MB."""
MAX_HANDED_FRACTION = 0.25
"""Jobs that are due are handed their bins alone up to this fraction of all; beyond it, all are."""
MAX_LOOPBACK_FRACTION = 0.05
"""Loopback bytes of a job, over what it sends to others, up to which its iterations count:
processes exchange a little to find each other."""
STARTING_S = 60.0
"""Seconds after its first byte for which nobody waits longer for a job that ran before than for a
reading."""
SYNC_S = 5.0
"""Between looks whether cgroups are still the same ones, seconds."""
MakeMeter = Callable[[Mapping[str, Any]], ByteMeter]


def kernel_meter(shared: Mapping[str, Any]) -> ByteMeter:
    """The real meter; imported only when it is needed."""
    from hostcc.measure.meter_kernel import KernelMeter

    return KernelMeter(shared=shared)


class _Counted(NamedTuple):
    job: LiveJob
    track: Track
    ways: Mapping[Address, Route]
    links: Sequence[Link]
    """Where its traffic has no addresses."""


class Traffic:
    """Counts, looks, profiles; gives each new job its turn to go first.

    `jobs`: who there is now.  `beside`: what else is known of a job.  `other`: its traffic that
    the meter does not see, and the links of that; the profile is of what is more.  `elsewhere`:
    the turns of jobs on other hosts.  `memory`: what is known of jobs that ran before; `begun` is
    called when one of these has begun to send.
    """

    name = "traffic"
    every_s = READ_S

    def __init__(
        self,
        host: Host,
        jobs: Callable[[], Sequence[LiveJob]],
        beside: Callable[[str], JobFacts],
        other: Callable[[str], BypassTraffic | None] = lambda _: None,
        make_meter: MakeMeter = kernel_meter,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        elsewhere: ClusterTurns | None = None,
        memory: JobMemory | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._jobs = jobs
        self._beside = beside
        self._other = other
        self._make_meter = make_meter
        self._clock_ns = clock_ns
        self._elsewhere = elsewhere or ClusterTurns()
        self._memory = memory or JobMemory(host, clock_ns)
        self._begun = begun
        self._expected: Mapping[str, RememberedJob] = {}
        """Jobs that ran before and are not measured yet."""
        self._metering: Metering | None = None
        self._engine: Engine | None = None
        self._synced: object = None
        """Jobs and port rules that the meter was told of last."""
        self._sync_due_s = 0.0
        self._live: dict[str, LiveJob] = {}
        self._tracks: dict[str, Track] = {}
        self._routes = RouteSearch()
        self._cache = ProfileCache()
        self._hints = BoundaryHints()
        self._schedule = AnalysisSchedule()
        self._analysing: asyncio.Task[None] | None = None
        self._crowded = 0
        self._queue: Mapping[str, ProfilingClaim] = {}
        """Jobs that wait for a turn."""
        self._root = Path("/")
        self.turns = Turns()
        self.last_turn: ProfilingTurn | None = None
        """The profiling turn that ended last."""

    def disabled_reason(self) -> str:
        """Configured away?"""
        return "" if self._host.config.measure.enabled else "measure.enabled is false"

    async def start(self) -> None:
        """Load the meter; it shares the congestion control's maps where there are any."""
        self._engine = self._host.engine
        self._root = resolve_root(self._host.config.agent.cgroup_root)
        self._synced, self._hints = None, BoundaryHints()
        self._routes.start()
        await in_thread(self._load, self._engine)

    def _load(self, engine: Engine | None) -> None:
        shared = engine.backend.shared_maps if engine is not None else {}
        self._metering = Metering(self._make_meter(shared), CgroupTree(self._root).identity)

    async def tick(self) -> None:
        """Read, analyse some jobs, decide whose turn it is."""
        if self._host.engine is not self._engine:  # another one: the tracker's map is another
            self._close_meter()
            await self.start()
        assert self._metering is not None
        jobs = list(self._jobs())
        self._live = {job.name: job for job in jobs}
        self._expected = self._memory.expected(jobs)
        self._sync(self._metering, jobs)
        self._metering.gather()
        self._tell_hints()
        if self._metering.last is not None:
            self._schedule.add_reading(self._metering.last, self._metering.jobs)
        due = self._due(self._metering)
        if due is not None:
            if due:
                self._take_of(self._metering, due)
                self._start_analyses()
            return
        self._take(self._metering.read())
        if any(has_begun(known, track.total[TX]) for track, known in self._starting):
            self._begun()
        self._start_analyses()
        self._give_turns()
        self._routes.look(self._tracks, self._live, self._clock_ns() / 1e9)

    def stop(self) -> None:
        """Detach everything; what was learned is forgotten."""
        if self._analysing is not None:
            self._analysing.cancel()
        if self._host.engine is not None:
            self._host.engine.table.set_preferred_job("", "measuring ended")
            for name in self._hints.hints():
                self._host.engine.table.set_boundary_hint(name, None)
        self._analysing = None
        self._routes.stop()
        self._elsewhere.stop()
        self._close_meter()
        self._tracks, self.turns = {}, Turns()
        self._memory.keep(())

    def verify(self) -> list[Difference]:
        """Whether jobs' cgroups are still metered."""
        found = [] if self._metering is None else self._metering.check()
        return [Difference("meter", "BPF", "attached", problem) for problem in found]

    def view(self) -> TrafficPart:
        """How many jobs are watched, what was lost, whose turn it is."""
        lost, last = self._metering.lost if self._metering is not None else None, self.last_turn
        limit = self._host.config.measure.jobs_max
        crowd = f"{self._crowded} jobs more than measure.jobs_max, {limit}, are not profiled"
        return TrafficPart(
            watched=sum(track.watch is not None for track in self._tracks.values()),
            lost_bins=lost.bins if lost else 0,
            lost_packets=lost.packets if lost else 0,
            profiling=self.turns.job or None,
            last_turn_job=last.job if last is not None else None,
            last_turn_s=last.length_s if last is not None else None,
            reason=crowd if self._crowded else None,
        )

    # What others ask.

    def catch_up(self, name: str) -> None:
        """Read the meter now, so that a job's history ends now; its analysis is not due earlier."""
        track, metering = self._tracks.get(name), self._metering
        if track is None or metering is None or metering.gap:
            return
        metering.gather()
        assert metering.last is not None
        self._schedule.add_reading(metering.last, metering.jobs)
        self._take_of(metering, [track], early=True)

    def known(self, name: str) -> JobKnowledge | None:
        """All that is known of a job now; None of one that is not profiled."""
        counted = self._counted(name)
        if counted is None:
            return None
        found, (job, track, ways, links) = None, counted
        with apart(track):
            beside = replace(self._beside(name), ways=ways, links=links)
            found = self._cache.known(job, track, beside)
        return found  # noqa: RET504 - `apart` goes on here after an exception

    def looped(self, name: str) -> int:
        """Bytes that a job has sent over loopback, which no profile is made of."""
        return self._metering.looped.get(name, 0) if self._metering is not None else 0

    def iteration(self, name: str) -> Iteration | None:
        """What an iteration of a job is like; None: that is not known well enough.

        Of a job that sends much over loopback, or by RDMA, the bytes are not those of its
        connections.
        """
        known = self.known(name)
        if known is None or known.measured.confidence < ENOUGH:
            return None
        got, track = known.measured, known.track
        period_s = got.mean_period_s or got.period_s
        if period_s is None:
            return None
        return Iteration(period_s, got.tx_bytes if self._is_counted_whole(track) else None)

    def sent(self) -> dict[str, tuple[int, float]]:
        """Bytes that each job has sent, and until when (CLOCK_MONOTONIC, seconds)."""
        tracks = {name: one.track for name in self._live if (one := self._counted(name))}
        return {name: (one.total[TX], one.counted_until_s) for name, one in tracks.items()}

    def all_known(self) -> dict[str, JobKnowledge]:
        """The same of every job."""
        found = {name: self.known(name) for name in sorted(self._tracks)}
        return {name: one for name, one in found.items() if one is not None}

    def profiles(self) -> list[JobProfile]:
        """What this host tells others of its jobs; of known ones it may be some seconds old."""
        now_s, told = self._clock_ns() / 1e9, []
        for name in sorted(self._tracks):
            if (counted := self._counted(name)) is not None:
                job, track, *reaches = counted
                make = partial(self._measured, name)
                with apart(track):
                    found = self._cache.profile(job, track, reaches, now_s, make)
                    told.append(self._memory.complete(job, track, found))
        return [profile for profile in told if profile is not None]

    def latest(self, name: str) -> JobProfile | None:
        """The same of one job, with where in its iterations it is now; None: nothing is known."""
        counted = self._counted(name)
        if counted is None:
            return None
        return self._memory.complete(counted.job, counted.track, self._measured(name))

    def _measured(self, name: str) -> JobProfile | None:
        known, ahead_s = self.known(name), time.time() - self._clock_ns() / 1e9
        if known is None:
            return None
        return profiles.to_share(known, host_name(self._host.config), ahead_s)

    def _counted(self, name: str) -> _Counted | None:
        """Where a job's bytes are counted; None of one that is not profiled."""
        job, track, other = self._live.get(name), self._tracks.get(name), self._other(name)
        if job is None:
            return None
        # The busier direction: the shim counts what is sent alone.
        if other is not None and max(other.track.total) > max(_total(track)):
            return _Counted(job, other.track, other.ways, other.links)
        return None if track is None else _Counted(job, track, self._routes.ways.get(name, {}), ())

    # One turn.

    def _sync(self, metering: Metering, jobs: Sequence[LiveJob]) -> None:
        """Tell the meter of the jobs, when they are others or may have other groups."""
        wanted, now_s = (jobs, port_rules(self._host.config)), self._clock_ns() / 1e9
        changed = wanted != self._synced
        held = metering.last is not None
        if not changed and (held or now_s < self._sync_due_s):
            return
        if held:  # it is of the jobs that there were
            self._take(metering.read())
        self._synced, self._sync_due_s = wanted, now_s + SYNC_S
        metering.sync(*wanted, self._root)

    def _due(self, metering: Metering) -> list[Track] | None:
        """Jobs to be analysed, none of those that wait for more to be read, when every pattern is
        known, and no turn goes on or is waited for; None: what was read is for all."""
        if metering.last is None or metering.gap or metering.cells >= MAX_PENDING_CELLS:
            return None
        if metering.begins or self._starting:
            return None
        tracks = [track for track in self._tracks.values() if track.watch is not None]
        unknown = sum(not track.known for track in tracks)
        if metering.gathered < MIN_READS_PER_BATCH and unknown <= ANALYSES_PER_TICK:
            return []
        if self.turns.job or self._queue or unknown:
            return None
        if metering.gathered < READS_PER_JOB * len(tracks):
            return []
        if metering.gathered_s >= MAX_WAIT_S:
            return None
        due = self._schedule.due(tracks, metering.last.end_ns)
        return due if len(due) <= MAX_HANDED_FRACTION * len(tracks) else None

    @property
    def _starting(self) -> list[tuple[Track, RememberedJob]]:
        """Jobs that ran before, began to send lately, and are not published as what they were."""
        now_ns = self._clock_ns()
        return [
            (track, known)
            for name, known in self._expected.items()
            if (track := self._tracks.get(name)) is not None
            and now_ns - track.first_ns < STARTING_S * NS
            and self._memory.recalled(name) is None
        ]

    def _take_of(self, metering: Metering, some: Sequence[Track], *, early: bool = False) -> None:
        """Hand their bins to some jobs only."""
        reading = metering.read_of([track.name for track in some], early=early)
        for track in some:
            with apart(track):
                _hand_over(track, reading.jobs[track.name])

    def _take(self, reading: Reading) -> None:
        most = self._host.config.measure.jobs_max
        for name in list(self._tracks):
            if name not in self._live:
                del self._tracks[name]
        self._cache.keep(self._live)
        self._memory.keep(self._live)
        self._schedule.keep(self._live)
        wanted = [name for name in self._live if name in self._tracks or name in reading.jobs]
        wanted.sort(key=lambda name: name not in self._tracks)
        self._crowded = max(0, len(wanted) - most)
        for name in wanted[:most]:
            track = self._tracks.setdefault(name, Track(name))
            counted = reading.jobs.get(name)
            with apart(track):
                if counted is None:
                    track.take(reading.silence)
                else:
                    _hand_over(track, counted)

    def _start_analyses(self) -> None:
        """Analyse some jobs' bins, in a thread: the agent's heartbeat must not wait for it."""
        if self._analysing is not None and not self._analysing.done():
            return
        batch = self._schedule.batch(list(self._tracks.values()), self._clock_ns())
        if batch:
            self._analysing = asyncio.get_running_loop().create_task(self._analyse(batch))

    async def _analyse(self, batch: Sequence[AnalysisRequest]) -> None:
        try:
            costs_s = await asyncio.to_thread(analyse_all, batch)
        except Exception as error:  # noqa: BLE001 - what is known stays, the next bins come
            log.defect("looking at jobs' traffic failed", error)
            return
        for request, cost_s in zip(batch, costs_s, strict=True):
            with apart(request.track):
                if isinstance(cost_s, Exception):
                    raise cost_s
                self._schedule.cost(request, cost_s)

    def _give_turns(self) -> None:
        now_ns = self._clock_ns()
        # Of RDMA jobs the track of what bypasses sockets.
        tracks = {name: found.track for name in self._live if (found := self._counted(name))}
        jobs = {
            name: Candidate(
                track.sending(now_ns),
                track.watch.found.confidence if track.watch else 0.0,
                track.watch.changes if track.watch else 0,
            )
            for name, track in tracks.items()
        }
        before, began_s, now_s = self.turns.job, self.turns.since_s, now_ns / 1e9
        longest_s = self._host.config.measure.profiling_max_s
        others = self._elsewhere.heed(self._waiting(now_s, jobs), jobs, now_s, longest_s)
        self.turns = local.step(self.turns, now_s, jobs, longest_s, others)
        self._queue = self._waiting(now_s, jobs)
        self._elsewhere.tell(self._queue)
        crowded = self._elsewhere.crowded(self.turns.job)
        first = local.preferred(self.turns, jobs, crowded=crowded)
        if before and before != self.turns.job:
            self.last_turn = ProfilingTurn(job=before, length_s=now_s - began_s)
            if before in tracks:
                self._note_alone(tracks[before])
        engine = self._host.engine
        if engine is not None and engine.table.preference.first != first:
            why = f"job {first} is profiled" if first else "it is profiled"
            engine.table.set_preferred_job(first, why)
            if first:
                log.info("job goes first while it is profiled", job=first)

    def _tell_hints(self) -> None:
        """Keep the kernel's boundary hints current."""
        if self._engine is None:
            return
        self._hints.keep(self._tracks)
        self._hints.update(
            self._tracks.values(),
            self._is_counted_whole,
            lambda name: self._beside(name).boundaries_s,
            self._engine.table.set_boundary_hint,
            self._clock_ns() / 1e9,
        )

    def _is_counted_whole(self, track: Track) -> bool:
        """Whether what is known of a job is of its connections over links, or nearly all."""
        name = track.name
        counted = self._counted(name)
        # What bypasses sockets has a track of its own.
        own = counted is not None and counted.track is track is self._tracks.get(name)
        return own and self.looped(name) <= MAX_LOOPBACK_FRACTION * track.total[TX]

    def _waiting(self, now_s: float, jobs: Mapping[str, Candidate]) -> dict[str, ProfilingClaim]:
        """What the others are told of turns here."""
        longest_s = self._host.config.measure.profiling_max_s
        names = local.waiting(self.turns, now_s, jobs, longest_s)
        had = self.turns.had
        told = {name: ProfilingClaim(turn=False, again=name in had) for name in names}
        job = self.turns.job
        return {**told, job: ProfilingClaim(turn=True, again=job in had)} if job in jobs else told

    def _note_alone(self, track: Track) -> None:
        if track.watch is not None and track.watch.found.period_s is not None:
            track.alone = track.watch.found.period_s, track.watch.found.bytes_per_iteration

    def _close_meter(self) -> None:
        if self._metering is not None:
            self._metering.close()
        self._metering = None


def _hand_over(track: Track, counted: JobReading) -> None:
    track.take(counted.series, counted.who, counted.sums, counted.total)


def _total(track: Track | None) -> tuple[int, int]:
    return track.total if track is not None else (0, 0)
