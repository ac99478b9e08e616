"""Makes jobs' entries for the shim, from plans, path tables and PCIe links.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hostcc.daemon.rdma import queue_pair_records
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute
from hostcc.model import PathTable, Plan
from hostcc.pcie.layout import LEVELS
from hostcc.verbs.plan_region import GATES, PATHS, PORTS, Pacing, RdmaJob


@dataclass(frozen=True)
class ShimRoute:
    """The path to one destination in a job's entry."""

    path: str
    """Id; empty: no path was known then for these ports."""
    ports: tuple[int, ...]
    """UDP source ports."""


Before = Mapping[tuple[str, str], ShimRoute]
"""By job and destination."""


@dataclass(frozen=True)
class ShimInputs:
    """All that entries are made from, beside jobs' names."""

    cluster: Plan | None = None
    """The plan that the hosts agree on."""
    member: str = ""
    """What this host is called in it."""
    stays: Collection[str] = ()
    """Names of flows that it leaves on the path that they had in its view."""
    local: Plan | None = None
    """This host's own plan, for jobs that are not in the other."""
    tables: Mapping[tuple[str, str], PathTable] = field(default_factory=dict)
    ways: Collection[QueuePairRoute] = ()
    ahead: Mapping[QueuePairRoute, str] = field(default_factory=dict)
    """Route -> path that takes the place of the planned one, which has failed."""
    held: Collection[QueuePairRoute] = ()
    """Routes that go back to the path that they had, whatever is planned."""
    dscp: Sequence[int] = ()
    """By level; empty: classes stay as they are."""
    gates: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """Job -> (device, number of the PCIe link)."""
    pacing: Mapping[str, Pacing] = field(default_factory=dict)
    silence_s: Mapping[str, float] = field(default_factory=dict)
    lowest: int = LEVELS - 1
    """Level of jobs that are in no plan."""
    first: str = ""
    """The job that is profiled; empty: none."""
    highest: int = 0
    """Its level."""


def jobs(names: Iterable[str], known: ShimInputs, before: Before) -> list[RdmaJob]:
    """Return an entry for each job; `before`: routes of the entries before."""
    levels = levels_of(known)
    made = []
    for name in sorted(names):
        level = levels.get(name, known.lowest)
        made.append(
            RdmaJob(
                name,
                known.dscp[min(level, len(known.dscp) - 1)] << 2 if known.dscp else None,
                tuple(sorted(ports_of(name, known, before).items()))[:PATHS],
                known.pacing.get(name),
                min(level, LEVELS - 1),
                known.gates.get(name, ())[:GATES],
                known.silence_s.get(name, RdmaJob(name).silence_s),
            )
        )
    return made


def levels_of(known: ShimInputs) -> dict[str, int]:
    """Return job -> level: a profiling turn goes before the cluster's plan, and that before this
    host's own."""
    plans = [plan for plan in (known.local, known.cluster) if plan is not None]
    found = {one.job: one.level for plan in plans for one in plan.jobs}
    return {**found, known.first: known.highest} if known.first else found


def routes(jobs: Iterable[RdmaJob], known: ShimInputs) -> dict[tuple[str, str], ShimRoute]:
    """Return the routes of entries, which the next entries keep to where they can."""
    tables = {(way.job, way.destination): known.tables.get((way.source, way.destination))
              for way in sorted(known.ways, reverse=True)}  # fmt: skip
    return {
        (one.name, to): ShimRoute(path_of(tables.get((one.name, to)), ports[0]), ports)
        for one in jobs
        for to, ports in one.ports
        if ports
    }


def ports_of(job: str, known: ShimInputs, before: Before) -> dict[str, tuple[int, ...]]:
    """Return destination -> source ports of the path to take: those before, if they lead there;
    none, if it is to be the path that the job's queue pairs had."""
    own = {one.flow: one.path for one in known.local.flows} if known.local is not None else {}
    agreed = known.cluster.flows if known.cluster is not None else ()
    paths = queue_pair_records.planned(
        ((one.flow, one.path) for one in agreed), known.member, known.ways
    )
    found: dict[str, tuple[int, ...]] = {}
    found |= {way.destination: () for way in known.held if way.job == job}
    for way in sorted(known.ways):
        table = known.tables.get((way.source, way.destination))
        wanted = known.ahead.get(way) or paths.get(way) or own.get(way.flow)
        if way.job != job or table is None or not wanted or way.destination in found:
            continue
        last = before.get((job, way.destination), ShimRoute("", ()))
        named = queue_pair_records.named(known.member, way)
        if way in paths and way not in known.ahead and named in known.stays:
            wanted = _moved_since(table, last) or wanted
        path = next((path for path in table.paths if path.id == wanted), None)
        if path is not None and path.ports:
            found[way.destination] = kept(last.ports, path.ports)
    return found


def _moved_since(table: PathTable, last: ShimRoute) -> str:
    """The path that a plan has moved a route to, where its ports still lead there; else empty.

    A plan that leaves the route where it was in its view does not know of that move, and must not
    take it back.  A port that switches hash elsewhere was not moved.
    """
    there = {path_of(table, port) for port in last.ports}
    return last.path if there == {last.path} else ""


def kept(before: Sequence[int], ports: Sequence[int]) -> tuple[int, ...]:
    """Return ports of a path, first those of `before` that lead there: their queue pairs stay."""
    those = set(ports)
    stay = [port for port in before if port in those]
    more = [port for port in spread(ports) if port not in stay] if len(stay) < len(before) else []
    return tuple([*stay, *more][:PORTS]) or spread(ports)


def spread(ports: Sequence[int]) -> tuple[int, ...]:
    """Return as many ports as an entry has room for, evenly out of all."""
    step = max(1, len(ports) // PORTS)
    return tuple(ports[::step][:PORTS])


def path_of(table: PathTable | None, port: int) -> str:
    """Return the id of the path that a port takes; empty: unknown."""
    if table is None or not port:
        return ""
    return next((path.id for path in table.paths if port in path.ports), "")
