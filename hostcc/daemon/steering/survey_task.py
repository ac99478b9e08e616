"""The part that surveys connections and paths, and publishes large flows and their paths."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from hostcc.answers.parts import PathsPart
from hostcc.answers.status import Routing
from hostcc.bpf.loader.errors import BpfError
from hostcc.config.sections.paths import PathsConfig
from hostcc.coord.core.payloads import (
    ADDRESSES,
    FLOWS,
    LINKS,
    MAX_ADDRESSES,
    PATHS,
    PROFILE,
    Addresses,
    Flows,
    Paths,
)
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.profile_store import ProfileStore
from hostcc.daemon.jobs.sockets import walked
from hostcc.daemon.steering import elephants, flow_records, rdma_flows
from hostcc.daemon.steering.elephants import Connection, Elephant, Sizes, connections
from hostcc.daemon.steering.flow_records import FarEnds, Pair
from hostcc.daemon.steering.nics import nics
from hostcc.daemon.steering.path_discovery import Explorer, ProbeRequest, TargetPaths
from hostcc.daemon.steering.rdma_flows import RdmaFlows
from hostcc.daemon.steering.steering_state import SteeringState, target_of
from hostcc.daemon.supervisor import Host, WithBlock, in_thread
from hostcc.errors import HostccError, one_line
from hostcc.log import get_logger
from hostcc.model import Difference, JobProfile
from hostcc.paths.link_events import LinkEvents
from hostcc.paths.packets import Target
from hostcc.paths.steering_messages import FlowKey

log = get_logger("paths")

TICK_S, SURVEY_S = 0.25, 0.5
"""Time between two ticks, and between two surveys of connections."""
FAST_S, MAX_FAST_S = 0.1, 60.0
"""The same for both while a search is under way, or a job that ran before is about to send; longest
time for which one is."""
MAX_SURVEY_TIME_FRACTION = 1 / 50
"""Upper bound on the share of a processor that surveys take."""
NICS_S = 5.0
MAX_PARALLEL_SEARCHES = 3
"""Searches for paths under way at a time."""
MAX_TARGETS = 1024
FAILED_LINK_RETRY_S = 10.0
"""Time between searches for a failed link."""
FORGET_TARGET_S = 60.0
"""Time after the last flow to a target, until its paths are no longer refreshed."""
MAX_KEPT, KEEP_S = 128, 3600.0
"""Targets without flows whose paths are kept, and for how long after the last flow."""


class SurveyTask:
    """Keeps `picture` up to date and publishes it to the cluster."""

    name = "paths"

    def __init__(
        self,
        host: Host,
        cluster: Cluster,
        picture: SteeringState,
        profiles: ProfileStore,
        shown: Callable[[], Routing],
        make_explorer: Callable[[PathsConfig], Explorer],
        more: Callable[[], RdmaFlows] = RdmaFlows,
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        """`begun`: called when a job that ran before has begun to send, until it is published."""
        self._host, self._cluster, self._picture = host, cluster, picture
        self._profiles, self._shown, self._more = profiles, shown, more
        self._make_explorer, self._begun = make_explorer, begun
        self._config: PathsConfig | None = None
        self._explorer: Explorer | None = None
        self._events: LinkEvents | None = None
        self._sizes, self._ends = Sizes(), FarEnds()
        self._looks: dict[Target, asyncio.Task[None]] = {}
        self._hints: dict[Target, str] = {}
        # Targets of which links are missed, and when to look for them again.
        self._missed: dict[Target, float] = {}
        # Targets without flows, the last one wanted at the end: used once there are flows again.
        self._kept = dict[Target, TargetPaths]()
        self._survey_at = self._nics_at = 0.0
        # Jobs that ran before and are not published yet, and since when they are there.
        self._awaited: dict[str, float] = {}
        # When connections were last compared, and these: in less than SURVEY_S a flow may well make
        # no progress.
        self._compared: tuple[float, Mapping[FlowKey, Connection]] = -math.inf, {}
        # When flows were large for the first time.
        self._first: dict[FlowKey, float] = {}
        # Whether there may be something new to tell.
        self._news = False
        self._counts = {"looks": 0, "failed": 0, "hints": 0}

    @property
    def every_s(self) -> float:
        """See Part."""
        return FAST_S if self._looks or self._is_fast else TICK_S

    @property
    def _is_fast(self) -> bool:
        now = time.monotonic()
        return any(now - since < MAX_FAST_S for since in self._awaited.values())

    def disabled_reason(self) -> str:
        """Say why it is disabled, by configuration or because it is of no use."""
        return disabled_reason(self._host)

    def start(self) -> None:
        """Begin with nothing known."""
        self._config = self._host.config.paths
        self._explorer = self._make_explorer(self._config)
        self._events = LinkEvents()
        self._survey_at = self._nics_at = 0.0

    async def tick(self) -> None:
        """Survey connections, start searches, publish changes."""
        if self._config != self._host.config.paths:
            self.stop()
            self.start()
        assert self._events is not None
        now = time.monotonic()
        if events := self._events.read():
            self.doubt([*self._picture.known, *self._kept], events[0])
            self._nics_at = now
        if now >= self._nics_at:
            self._nics_at = now + NICS_S
            assert self._config is not None
            # How fast a device is only its driver knows, and that waits for whoever configures one.
            self._picture.nics = tuple(await in_thread(nics, self._config.devices))
        if now >= self._survey_at:
            profiles = self._profiles.steady()
            # By its processor time: where others take the processor, it is no less urgent.
            cost_s = await self._survey(now, profiles)
            pause_s = FAST_S if self._is_fast else SURVEY_S
            self._survey_at = now + max(pause_s, cost_s / MAX_SURVEY_TIME_FRACTION)
            self._news = True
        self._look(now)
        if self._news:
            self._news = False
            self._tell()

    def stop(self) -> None:
        """End searches and withdraw what was published."""
        for task in self._looks.values():
            task.cancel()
        if self._events is not None:
            self._events.close()
        self._explorer, self._events = None, None
        self._looks, self._hints, self._missed, self._sizes = {}, {}, {}, Sizes()
        self._first, self._kept, self._awaited = {}, {}, {}
        self._compared = -math.inf, {}
        self._picture.elephants, self._picture.connections = {}, {}
        self._picture.known = {}
        for kind in (FLOWS, PATHS, LINKS, ADDRESSES):
            self._cluster.publish(kind, {})

    def verify(self) -> list[Difference]:
        """Nothing: it does not change the host."""
        return []

    def view(self) -> WithBlock[Routing]:
        """Return the number of paths by target, and what could not be published."""
        untold = {
            f"{kind} {key}".strip(): why
            for (kind, key), why in self._cluster.refusals.items()
            if kind != PROFILE  # shown with the gossip
        }
        counts = self._counts
        figures = PathsPart(
            looks=counts["looks"], failed=counts["failed"], hints=counts["hints"], untold=untold
        )
        return WithBlock(self._shown(), figures)

    def doubt(self, targets: Iterable[Target], reason: str) -> None:
        """Have the paths of these targets searched again at once."""
        for target in set(targets):
            self._hints[target] = reason
            self._counts["hints"] += 1

    # Flows.

    async def _survey(self, now: float, profiles: Sequence[JobProfile]) -> float:
        # Look at all connections; the processor time that it took, seconds.
        engine, config = self._host.engine, self._config
        assert engine is not None
        assert config is not None
        table, picture, least = engine.table, self._picture, config.elephant_bytes
        names = {job.slot: job.name for job in table.jobs.values()}
        own, owners, sizes = picture.addresses, self._cluster.owners(), self._sizes
        sockets, is_late = table.sockets, now >= self._compared[0] + SURVEY_S
        expected, told = self._profiles.expected(), {one.job for one in profiles}
        rows = await walked(sockets.flows(table.jobs.values()))

        def sorted_out() -> tuple[list[Connection], list[Elephant], frozenset[FlowKey], float]:
            began = time.thread_time()
            those = [one for one in connections(rows, names, least, expected) if one.key.src in own]
            found = sizes.elephants(those, profiles, owners, least, now)
            stalled = elephants.stalled(those, self._compared[1]) if is_late else picture.stalled
            return those, found, stalled, time.thread_time() - began

        those, found, picture.stalled, cost_s = await in_thread(sorted_out)
        picture.connections = {one.key: one for one in those}
        if is_late:
            self.doubt(map(target_of, picture.stalled), "a flow stands still")
            self._compared = now, picture.connections
        picture.elephants = {one.key: one for one in found}
        picture.surveys += 1
        self._want([one.key for one in those if one.key.dst in owners], now)
        self._awaited = {job: self._awaited.get(job, now) for job in expected.keys() - told}
        if elephants.begun(those, expected) & self._awaited.keys():
            self._begun()
        return sockets.cost_s + cost_s

    def _want(self, keys: Sequence[FlowKey], now: float) -> None:
        # Targets to know the paths of, by their flows.
        picture, wanted = self._picture, dict[Target, list[FlowKey]]()
        whole, kept = _whole(picture.known.values()), _whole(self._kept.values())
        for key in keys:
            wanted.setdefault(target_of(key), []).append(key)
        for target, flows in list(wanted.items())[:MAX_TARGETS]:
            known = picture.known.get(target) or self._kept.pop(target, TargetPaths(target))
            picture.known[target] = known
            ports = {port for key in flows for port in (key.sport, picture.wire_ports.get(key, 0))}
            own_first = _ends(target) in whole | kept
            known.asked = ProbeRequest(tuple(sorted(ports - {0})), len(flows), own_first)
            known.wanted_at = now
        for target, known in list(picture.known.items()):
            if now - known.wanted_at > FORGET_TARGET_S and target not in self._looks:
                self._kept[target] = picture.known.pop(target)
                self._hints.pop(target, None)
                self._missed.pop(target, None)
        for target, known in list(self._kept.items()):
            crowd = len(self._kept) > MAX_KEPT
            if crowd or not known.is_whole or now - known.wanted_at > KEEP_S:
                del self._kept[target]
                self._hints.pop(target, None)
                assert self._explorer is not None
                self._explorer.forget(target)

    # Paths.

    def _look(self, now: float) -> None:
        assert self._explorer is not None
        for target in [target for target, task in self._looks.items() if task.done()]:
            del self._looks[target]
            self._news = True
        for target, known in self._picture.known.items():
            if target in self._looks:
                continue
            if known.gone and now >= self._missed.get(target, 0.0):
                self._missed[target] = now + FAILED_LINK_RETRY_S
                self._hints.setdefault(target, "a link is missed")
            if reason := self._hints.pop(target, ""):
                self._explorer.hint(target, reason)
            if len(self._looks) < MAX_PARALLEL_SEARCHES and self._explorer.due(known, now):
                look = self._look_at(self._explorer, known)
                self._looks[target] = asyncio.get_running_loop().create_task(look)

    async def _look_at(self, by: Explorer, known: TargetPaths) -> None:
        self._counts["looks"] += 1
        try:
            await asyncio.to_thread(by.look, known)
        except (HostccError, BpfError, OSError) as error:
            self._failed(known, one_line(str(error)))
        except Exception as error:  # noqa: BLE001 - what is known stays
            log.defect("looking for paths failed", error)
            self._failed(known, one_line(repr(error)))

    def _failed(self, known: TargetPaths, why: str) -> None:
        self._counts["failed"] += 1
        if known.why != why:
            log.failure("no paths", dst=known.target.dst, port=known.target.dst_port, reason=why)
        known.why = why

    # The others.

    def _tell(self) -> None:
        cluster, picture = self._cluster, self._picture
        assert self._config is not None
        if not cluster.name:
            return
        owners = cluster.owners()
        targets = [known.target for known in picture.known.values() if known.target.dst in owners]
        more = self._more()
        pairs = {(one.src, one.dst): owners[one.dst] for one in targets}
        ends = self._ends.update({**pairs, **more.pairs(owners)})
        for one in [x for x in picture.elephants if (x.src, x.dst) not in ends]:
            del picture.elephants[one]
        before = {
            job: said
            for job in {*(one.connection.job for one in picture.elephants.values()), *more.jobs()}
            if isinstance(said := cluster.published(FLOWS, job), Flows)
        }
        config = self._config

        def last(end: str) -> Paths | None:
            said = cluster.published(PATHS, end)
            return said if isinstance(said, Paths) else None

        # Paths depend on the two hosts, source ports on the destination port too: until those to a
        # new port are found, what is kept says which paths there are.
        kept = {_ends(one.target): one for one in self._kept.values()}
        found = _whole(picture.known.values())
        beside = (one for pair, one in kept.items() if pair not in found)
        paths = flow_records.paths([*picture.known.values(), *beside], ends, last)
        paths |= rdma_flows.paths(more, ends)
        links = flow_records.links(paths.values(), picture.nics, config, more.capacities)
        now = time.monotonic()
        self._first = {key: self._first.get(key, now) for key in picture.elephants}
        flows = flow_records.flows(
            picture, ends, before, flow_records.soon(picture, self._first, now)
        )
        cluster.publish(LINKS, {"": links})
        cluster.publish(PATHS, paths)
        cluster.publish(FLOWS, rdma_flows.flows(flows, more, ends, before, config.elephant_bytes))
        own = self._config.addresses or sorted(picture.addresses)
        cluster.publish(ADDRESSES, {"": Addresses(tuple(own)[:MAX_ADDRESSES])})


def _ends(target: Target) -> Pair:
    return target.src, target.dst


def _whole(those: Iterable[TargetPaths]) -> set[Pair]:
    # Between which hosts all paths are known.
    return {_ends(one.target) for one in those if one.is_whole}


def disabled_reason(host: Host) -> str:
    """Say why surveys do not run; empty when they do."""
    config = host.config
    if not config.paths.enabled:
        return "paths.enabled is false"
    if host.engine is None:
        return "the agent only observes"
    if not config.gossip.enabled:
        return "paths need gossip: gossip.enabled is false"
    return "" if config.measure.enabled else "paths need measure.enabled"
