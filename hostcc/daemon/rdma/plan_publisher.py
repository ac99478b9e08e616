"""The part that gives jobs with the transport shim their paths, class, rate and turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from hostcc.answers import parts
from hostcc.answers.parts import QueuePair, RdmaPlanPart, ToldRdma
from hostcc.config.schema import Config
from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.changes import kinds, mechanisms
from hostcc.daemon.gossip import rdma_profiles
from hostcc.daemon.gossip.profile_store import ProfileStore
from hostcc.daemon.jobs import requests
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.rdma import path_source, queue_pair_records, shim_plan
from hostcc.daemon.rdma.pacing import Sizes, pacing
from hostcc.daemon.rdma.pairs import Pair, elephants
from hostcc.daemon.rdma.path_tables import Ask, Check, PathTables, blind
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute, route_of, view
from hostcc.daemon.rdma.route_failover import RouteFailover
from hostcc.daemon.rdma.senders import SenderTracker
from hostcc.daemon.rdma.shim_plan import ShimInputs
from hostcc.daemon.steering.rdma_flows import RdmaFlows
from hostcc.daemon.supervisor import Host
from hostcc.errors import HostccError
from hostcc.log import get_logger
from hostcc.measure.rdma_counters import packets, read_ports, retransmissions
from hostcc.model import Change, ClusterView, Difference, Plan
from hostcc.paths.link_events import LinkEvents
from hostcc.verbs.plan_region import MAX_JOBS, PlanRegion, RdmaJob
from hostcc.verbs.process_counts import sweep

log = get_logger("rdma")

MAX_PAIRS_SHOWN = 64
"""Queue pairs of a job in status."""
LOOKING_S = 0.1
"""Between two ticks while paths are looked at: what these miss is acted on at once."""
SWEEP_S = 30.0
"""Between two removals of files of processes that are gone."""
BYTES_PER_S_PER_MBIT = 125_000.0
BACK = "as it had"
"""Told of a destination whose queue pairs go back to the path that they had."""


class PlanPublisher:
    """Publishes jobs' entries in shared memory with a heartbeat, and reads jobs' counters."""

    name = "rdma-plan"

    def __init__(
        self,
        host: Host,
        tracker: SenderTracker,
        profiles: ProfileStore,
        plans: PlanStore,
        ask: Callable[[PathsConfig], Ask],
        clock: Callable[[], float] = time.monotonic,
        link_events: Callable[[], LinkEvents] = LinkEvents,
        check: Callable[[PathsConfig], Check] = lambda _: blind,
    ) -> None:
        """`ask` makes what asks for paths, `check` what looks again at those that are known; both
        from the configuration as it is then."""
        self._host, self._tracker = host, tracker
        self._profiles, self._plans = profiles, plans
        self._make_ask, self._make_check = ask, check
        self._asked: PathsConfig | None = None
        """The configuration that paths are asked for by."""
        self._ways = PathTables(clock)
        self._failover = RouteFailover(self._ways, clock)
        self._link_events = link_events
        self._events: LinkEvents | None = None
        self._clock = clock
        self._region: PlanRegion | None = None
        self._view: ClusterView | None = None
        self._local: PlanResult | None = None
        self.shared = RdmaFlows()
        """Flows of queue pairs and their paths, which steering publishes."""
        self._published: dict[str, RdmaJob] = {}
        self._routes: shim_plan.Before = {}
        self._sizes = Sizes()
        self._iteration_bytes: dict[str, int] = {}
        self._device_rates: dict[str, float] = {}
        self._sweep_at = 0.0
        self._crowded: set[str] = set()

    @property
    def region(self) -> PlanRegion | None:
        """The plan in shared memory, while there is one: for the gates in it."""
        return self._region

    @property
    def every_s(self) -> float:
        """Seconds between ticks: the agent's heartbeat, or what a quick look takes."""
        heartbeat_s = self._host.config.agent.heartbeat_s
        return min(heartbeat_s, LOOKING_S) if self._ways.is_looking else heartbeat_s

    def disabled_reason(self) -> str:
        """Return why there is nobody to give a plan to, if so."""
        return self._tracker.disabled_reason()

    def start(self) -> None:
        """Create the shared memory; jobs that have an earlier agent's open take the new one."""
        mechanisms.undo_all(self._host.journal, (kinds.RDMA_PLAN,), "left by an earlier agent")
        path = Path(self._host.config.rdma.plan)
        with self._host.journal.making(kinds.rdma_plan(path)):
            self._region = PlanRegion.create(path, MAX_JOBS, *self._limits())
        ports = read_ports(self._tracker.sysfs)
        self._device_rates = {one.device: one.rate_bps / 8 for one in ports if one.rate_bps}
        self._events = self._link_events()
        self._publish_new()

    async def tick(self) -> None:
        """Send the heartbeat, read jobs' counters, publish what is new."""
        assert self._region is not None
        assert self._events is not None
        self._region.set(*self._limits())
        self._region.beat()
        if events := self._events.read():
            self._ways.doubt_all(events[0])
        if self._tracker.look():
            self._profiles.rdma = queue_pair_records.rates_by_job(self._tracker.rates)
            self._iteration_bytes = self._sizes.take(self._tracker.senders)
            self._judge()
            self._find_ways()
            self._act()  # what has failed does not wait for a plan
            await self._plan()
            self._sweep()
            self._warn()
        self._act()

    def stop(self) -> None:
        """Close the shared memory: shims see that at once, and act no more."""
        self._ways.stop()
        self._failover.end()
        if self._events is not None:
            self._events.close()
            self._events = None
        self._tracker.forget()
        self._profiles.rdma = {}
        self._view, self._local, self._published, self._routes = None, None, {}, {}
        self.shared = RdmaFlows()
        if self._region is not None:
            path = self._region.path
            self._region.close()
            self._region = None
            ours = [key for key in self._host.journal.active if key.startswith(kinds.RDMA_JOB)]
            done = [*ours, kinds.shared_id(kinds.RDMA_PLAN, path)]
            self._host.journal.undone(done, "undone")

    def verify(self) -> list[Difference]:
        """Check that the file which jobs open is there, and says what was published."""
        if self._region is None:
            return []
        path = self._region.path
        found = []
        if problem := self._region.problem():
            change_id = kinds.shared_id(kinds.RDMA_PLAN, path)
            found.append(Difference(change_id, str(path), "as it was made", problem))
        for name in self._region.altered():
            change_id = f"{kinds.RDMA_JOB}:{name}"
            found.append(Difference(change_id, f"job {name}", "as it was told", "something else"))
        return found

    def view(self) -> RdmaPlanPart:
        """Show the entries of jobs, and what they counted."""
        unknown = {f"{src} > {dst}": why for (src, dst), why in self._ways.why.items()}
        rows = [self._shown(name) for name in self._senders_of()]
        failover = self._failover
        return RdmaPlanPart(
            rdma=rows,
            unknown=unknown,
            prepared=failover.prepared,
            ahead=len(failover.ahead),
            moved=failover.moved,
            fell_back=failover.fell_back,
        )

    def joined(self) -> dict[str, str]:
        """Publish the entry of a job that starts; return what its environment needs."""
        if self._region is None:
            return {}
        self._publish_new()
        return self._host.config.shim_variables

    def _limits(self) -> tuple[float, int]:
        """Seconds after which there is no agent, and bytes of a long message."""
        config = self._host.config
        return min(config.agent.heartbeat_stale_s, 60.0), config.rdma.long_message_bytes

    # Deciding.

    def _judge(self) -> None:
        """Have paths probed again at once that may be dead or others, and leave those that are
        worse than what queue pairs had."""
        config, sysfs = self._host.config, self._tracker.sysfs
        senders = elephants(self._tracker.senders, config.rdma.long_message_bytes)
        devices = {pair.device for one in senders for pair in one.pairs}
        again = {one: retransmissions(one, sysfs) for one in devices}
        counts = {one: packets(one, sysfs) for one in devices}
        self._failover.look(senders, again, counts, self._routes, config.paths)

    def _find_ways(self) -> None:
        config, paths = self._host.config.rdma, self._host.config.paths
        if not config.steer:
            self._ways.stop()
            return
        if paths != self._asked:
            self._ways.stop()
            self._ways.ask, self._ways.check = self._make_ask(paths), self._make_check(paths)
            self._asked = paths
        ends = {(way.source, way.destination) for way in self._tracker.rates}
        self._ways.want(ends, path_source.interval_s(paths, config.probe_s))

    async def _plan(self) -> None:
        """This host's own plan, for jobs that the cluster's does not name."""
        weights = self._weights()
        rates, tracker = self._tracker.rates, self._tracker
        measured = rdma_profiles.informative(self._profiles.steady(), self._profiles.rdma)
        profiles = {one.job: one for one in measured}
        inside = {way: tracker.inside.get((way.job, way.device), ()) for way in rates}
        known, on = {**tracker.capacities, **self._own_links()}, self._paths_now()
        tables = self._ways.tables
        own = {link: rate for link, rate in known.items() if not link.startswith(">")}
        self.shared = queue_pair_records.shared_flows(rates, tables, inside, own, profiles, on)
        capacities = {**known, **self._configured()}
        paths = {way: path for way, (path, _) in on.items()}
        now = view(rates, tables, inside, capacities, profiles, paths, weights)
        if now == self._view:
            return
        self._view = now
        self._local = (
            await asyncio.to_thread(_planned, now, self._host.config) if now.jobs else None
        )

    def _weights(self) -> dict[str, float]:
        engine = self._host.engine
        if engine is None:
            return {}
        return {job.name: engine.table.weight_of(job) for job in engine.table.jobs.values()}

    def _own_links(self) -> dict[str, float]:
        found = {}
        for way in self._tracker.rates:
            rate = self._device_rates.get(way.device)
            if rate:
                found[f"{way.source}>"] = found[f">{way.destination}"] = rate
        return found

    def _configured(self) -> dict[str, float]:
        """What the configuration says of links (`[paths]`), before anything else."""
        config = self._host.config.paths
        own = {f"{way.source}>" for way in self._tracker.rates}
        own |= {f">{way.destination}" for way in self._tracker.rates}
        names = {link for table in self._ways.tables.values()
                 for path in table.paths for link in path.links}  # fmt: skip
        found = {}
        for link in names | own:
            other = config.fabric_mbit_per_s if link not in own else 0.0
            given = next((x.mbit_per_s for x in config.link if fnmatchcase(link, x.link)), other)
            if given:
                found[link] = given * BYTES_PER_S_PER_MBIT
        return found

    def _paths_now(self) -> dict[QueuePairRoute, tuple[str, int]]:
        """Path and a source port of each way's queue pairs, where all are on one path."""
        found: dict[QueuePairRoute, set[str]] = {}
        ports: dict[QueuePairRoute, int] = {}
        for sender in self._tracker.senders:
            for pair in sender.pairs:
                way = route_of(sender.job, pair)
                table = self._ways.tables.get((way.source, way.destination))
                found.setdefault(way, set()).add(shim_plan.path_of(table, pair.port))
                ports[way] = min(pair.port, ports.get(way, pair.port))
        return {way: (min(paths), ports[way]) for way, paths in found.items() if len(paths) == 1}

    # Publishing.

    def _act(self) -> None:
        made, member = self._plans.current("paths"), self._plans.member
        self._failover.follow(made, member, self._local, self._tracker.rates)
        self._publish_new()

    def _publish_new(self) -> None:
        engine, config = self._host.engine, self._host.config
        if self._region is None or engine is None:
            return
        table = engine.table
        silence = {
            job.name: job.params.silence_us * 1e-6
            for job in table.jobs.values()
            if job.params is not None and job.params.silence_us
        }
        params = {job.name: job.params for job in table.jobs.values() if job.params is not None}
        rates, senders, sizes = self._device_rates, self._tracker.senders, self._iteration_bytes
        made = self._plans.current("paths")
        known = ShimInputs(
            cluster=_combined(self._plans.plan("marks"), made.plan if made is not None else None),
            member=self._plans.member,
            stays=made.stays if made is not None else (),
            local=self._local.plan if self._local is not None else None,
            tables=self._ways.tables,
            ways=tuple(self._tracker.rates),
            ahead=self._failover.ahead,
            held=self._failover.held,
            dscp=config.rdma.dscp,
            gates=self._tracker.gates,
            pacing=pacing(senders, rates, params, sizes) if config.rdma.pace else {},
            silence_s=silence,
            first=table.preference.first,
            highest=min(set(range(config.plan.levels)) - set(config.plan.reserved), default=0),
        )
        names = [name for name in sorted(table.jobs) if requests.given(table, name, "rdma")]
        jobs = {one.name: one for one in shim_plan.jobs(names[:MAX_JOBS], known, self._routes)}
        if jobs == self._published:
            return
        self._publish(jobs, known)

    def _publish(self, jobs: dict[str, RdmaJob], known: ShimInputs) -> None:
        assert self._region is not None
        journal = self._host.journal
        gone = [f"{kinds.RDMA_JOB}:{name}" for name in self._published if name not in jobs]
        why = known.cluster.reason if known.cluster is not None else "this host's own plan"
        new = [one for name, one in jobs.items() if one != self._published.get(name)]
        journal.begin(
            *(
                kinds.rdma_job(one.name, to_builtins(_told(one)), self._why(one.name) or why)
                for one in new
            )
        )
        self._region.publish(list(jobs.values()))
        journal.undone(gone, "the job ended")
        self._published = jobs
        self._routes = shim_plan.routes(jobs.values(), known)

    def _why(self, job: str) -> str:
        """Why a job's entry is not as planned; empty: it is."""
        return "; ".join(f"{to}: {why}" for to, why in sorted(self._failover.reasons(job).items()))

    def _sweep(self) -> None:
        """Remove files of processes that were killed."""
        now = self._clock()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_S
            sweep(Path(self._host.config.rdma.counts))

    # Showing.

    def _senders_of(self) -> list[str]:
        return sorted({*self._published, *(one.job for one in self._tracker.senders)})

    def _shown(self, name: str) -> parts.RdmaJob:
        those = [one for one in self._tracker.senders if one.job == name]
        pairs = [pair for one in those for pair in one.pairs]
        largest = sorted(pairs, key=lambda one: -one.bytes)[:MAX_PAIRS_SHOWN]
        told = self._published.get(name)
        least = self._host.config.rdma.long_message_bytes
        return parts.RdmaJob(
            job=name,
            told=_told(told) if told is not None else None,
            processes=len(those),
            queue_pairs=len(pairs),
            short=sum(not pair.is_elephant(least) for pair in pairs),
            bytes=sum(pair.bytes for pair in pairs),
            iterations=max((one.iterations for one in those), default=0),
            moves=sum(pair.moves for pair in pairs),
            failed=sum(pair.failed for pair in pairs),
            left_alone=sum(one.left_alone for one in those),
            largest=[self._row(pair) for pair in largest],
            elsewhere=self._failover.reasons(name),
        )

    def _warn(self) -> None:
        """Log jobs that have more queue pairs or devices than the shim has room for."""
        crowded = {one.job for one in self._tracker.senders if one.left_alone}
        for job in sorted(crowded - self._crowded):
            log.warning("no room for all of its queue pairs: some are left alone", job=job)
        self._crowded = crowded

    def _row(self, pair: Pair) -> QueuePair:
        table = self._ways.tables.get((pair.source, pair.destination))
        return QueuePair(
            qpn=pair.qpn,
            device=pair.device,
            source=pair.source,
            destination=pair.destination,
            port=pair.port or None,
            path=shim_plan.path_of(table, pair.port) or None,
            tclass=pair.traffic_class,
            bytes=pair.bytes,
            moves=pair.moves,
            failed=pair.failed,
            longest=pair.longest or None,
            elephant=pair.is_elephant(self._host.config.rdma.long_message_bytes),
        )


def planned(config: Config) -> list[Change]:
    """The shared memory that `start` makes, where there is an RDMA device."""
    wanted = config.rdma.enabled and any(read_ports())
    return [kinds.rdma_plan(Path(config.rdma.plan))] if wanted else []


def _planned(now: ClusterView, config: Any) -> PlanResult | None:
    """This host's own plan.  The scheduler is loaded when the first job sends by RDMA."""
    from hostcc.daemon.planning.planner import options
    from hostcc.schedule.plan import solve_for_agents
    from hostcc.schedule.plan_writer import write_plan

    try:
        solution = solve_for_agents(now, options(config.plan))
        return PlanResult(write_plan(now.digest, solution), solution, tables=now.tables)
    except HostccError as error:
        log.failure("no plan of this host's own", reason=str(error))
        return None


def _combined(marks: Plan | None, paths: Plan | None) -> Plan | None:
    """Levels of one plan with the paths of another, which may be the same."""
    either = marks or paths
    if marks is paths or either is None:
        return marks
    jobs = marks.jobs if marks is not None else ()
    return replace(either, jobs=jobs, flows=paths.flows if paths is not None else ())


def _told(job: RdmaJob) -> ToldRdma:
    """A job's entry, for people and the journal."""
    return ToldRdma(
        level=job.level,
        tclass=job.traffic_class,
        ports="; ".join(f"{to}: {' '.join(map(str, ports)) or BACK}" for to, ports in job.ports)
        or None,
        links=" ".join(f"{device or 'any'}:{link}" for device, link in job.gates) or None,
        rate=round(job.pacing.rate) if job.pacing is not None else None,
    )
