"""What jobs are told, from plans and from what is known of paths and PCIe links.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hostcc.daemon.rdma import queue_pair_records
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute
from hostcc.model import PathTable, Plan
from hostcc.pcie.layout import LEVELS
from hostcc.verbs.plan import GATES, PATHS, PORTS, Pacing, RdmaJob


@dataclass(frozen=True)
class ShimRoute:
    """Where a job was told to send, to one destination."""

    path: str
    """Id; empty: no path was known then for these ports."""
    ports: tuple[int, ...]
    """UDP source ports."""


Before = Mapping[tuple[str, str], ShimRoute]
"""By job and destination."""


@dataclass(frozen=True)
class ShimInputs:
    """Everything that decides about jobs, beside their names."""

    cluster: Plan | None = None
    """The plan that the hosts agree on."""
    member: str = ""
    """What this host is called in it."""
    stays: Collection[str] = ()
    """Flows, by their names in it, that it leaves on the path that they were on in its view."""
    local: Plan | None = None
    """This host's own, for whom that one does not name."""
    tables: Mapping[tuple[str, str], PathTable] = field(default_factory=dict)
    ways: Collection[QueuePairRoute] = ()
    dscp: Sequence[int] = ()
    """By level; empty: classes stay as they are."""
    gates: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """Job -> (device, number of the PCIe link)."""
    pacing: Mapping[str, Pacing] = field(default_factory=dict)
    silence_s: Mapping[str, float] = field(default_factory=dict)
    lowest: int = LEVELS - 1
    """Level of whom no plan names."""


def jobs(names: Iterable[str], known: ShimInputs, before: Before) -> list[RdmaJob]:
    """One for each job; `before`: what they were told last."""
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
    """Job -> level, of the cluster's plan before this host's own."""
    plans = [plan for plan in (known.local, known.cluster) if plan is not None]
    return {one.job: one.level for plan in plans for one in plan.jobs}


def told(jobs: Iterable[RdmaJob], known: ShimInputs) -> dict[tuple[str, str], ShimRoute]:
    """What is to be remembered of what jobs are told now."""
    tables = {(way.job, way.destination): known.tables.get((way.source, way.destination))
              for way in sorted(known.ways, reverse=True)}  # fmt: skip
    return {
        (one.name, to): ShimRoute(path_of(tables.get((one.name, to)), ports[0]), ports)
        for one in jobs
        for to, ports in one.ports
    }


def ports_of(job: str, known: ShimInputs, before: Before) -> dict[str, tuple[int, ...]]:
    """Destination -> source ports of the path to take: those told before, where they lead there."""
    own = {one.flow: one.path for one in known.local.flows} if known.local is not None else {}
    agreed = known.cluster.flows if known.cluster is not None else ()
    paths = queue_pair_records.planned(
        ((one.flow, one.path) for one in agreed), known.member, known.ways
    )
    found: dict[str, tuple[int, ...]] = {}
    for way in sorted(known.ways):
        table = known.tables.get((way.source, way.destination))
        wanted = paths.get(way) or own.get(way.flow)
        if way.job != job or table is None or not wanted or way.destination in found:
            continue
        last = before.get((job, way.destination), ShimRoute("", ()))
        if way in paths and queue_pair_records.named(known.member, way) in known.stays:
            wanted = _moved_since(table, last) or wanted
        path = next((path for path in table.paths if path.id == wanted), None)
        if path is not None and path.ports:
            found[way.destination] = kept(last.ports, path.ports)
    return found


def _moved_since(table: PathTable, last: ShimRoute) -> str:
    """The path that a plan has moved a way to, where its ports still lead there; else empty.

    A plan that leaves the way where it was in its view knows nothing of that move: it must not
    take it back.  What switches hash elsewhere is no move.
    """
    there = {path_of(table, port) for port in last.ports}
    return last.path if there == {last.path} else ""


def kept(before: Sequence[int], ports: Sequence[int]) -> tuple[int, ...]:
    """Ports of a path: first those of `before` that lead there, so that who is there stays."""
    those = set(ports)
    stay = [port for port in before if port in those]
    more = [port for port in spread(ports) if port not in stay] if len(stay) < len(before) else []
    return tuple([*stay, *more][:PORTS]) or spread(ports)


def spread(ports: Sequence[int]) -> tuple[int, ...]:
    """As many as a job can be given, evenly out of all."""
    step = max(1, len(ports) // PORTS)
    return tuple(ports[::step][:PORTS])


def path_of(table: PathTable | None, port: int) -> str:
    """Id of the path that a port takes; empty: unknown."""
    if table is None or not port:
        return ""
    return next((path.id for path in table.paths if port in path.ports), "")
