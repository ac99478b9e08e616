"""Jobs and links as arrays, which is what is simulated; checked before any of it is.

Offsets are as in compressed sparse rows: the phases of job j are job_phase[j] to job_phase[j + 1],
the rings of a phase, the flows of a ring and the links of a flow likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostcc.errors import InputError
from hostcc.sim.periodic import SimFlow, SimJob, SimPhase

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.uint8]

MOST_JOBS = 1_000_000
MOST_FLOWS = 16_000_000
MOST_HOPS = 64
MOST_HOPS_OF_ALL = 1 << 27
MOST_ROUNDS = 1_000_000
MOST_LINKS = 4_000_000
MOST_SECONDS = 1e9
MOST_BYTES = 1e18
"""Bytes of a flow, and bytes/s of a link."""
LEAST_RATE = 1e-3
MOST_DELAY_S = 10.0
WEIGHTS = (1e-6, 1e6)
SHORTEST_ITERATION_S = 1e-6


@dataclass(frozen=True)
class Fabric:
    """Links."""

    capacity: Floats
    """(L,) bytes/s; 0: it has failed."""
    delay: Floats
    """(L,) seconds after a flow's last byte."""

    @classmethod
    def of(cls, capacity: Sequence[float] | Floats, delay: Sequence[float] | Floats = ()) -> Fabric:
        """Make it from bytes/s and seconds; no delays: 0. Raises InputError."""
        rates = np.array(capacity, np.float64).reshape(-1)
        delays = np.array(delay, np.float64) if len(delay) else np.zeros(len(rates))
        if len(rates) > MOST_LINKS or delays.shape != rates.shape:
            raise InputError(f"links: expected up to {MOST_LINKS} and a delay for each")
        within("links: capacity", rates, LEAST_RATE, MOST_BYTES, zero=True)
        within("links: delay", delays, 0.0, MOST_DELAY_S)
        return cls(rates, delays)


@dataclass(frozen=True)
class Workload:
    """J jobs with P phases, R rings, F flows."""

    job_start: Floats
    """(J,) seconds."""
    job_compute: Floats
    """(J,) seconds per iteration."""
    job_stop: Floats
    """(J,) when it leaves at the latest; infinity: it does not."""
    job_iterations: Ints
    """(J,) after which it leaves; -1: it does not."""
    job_phase: Ints
    """(J + 1,)"""
    phase_start: Floats
    """(P,) seconds of computation before it."""
    phase_blocks: Flags
    """(P,) whether the computation waits for it."""
    phase_ring: Ints
    """(P + 1,)"""
    ring_rounds: Ints
    """(R,)"""
    ring_flow: Ints
    """(R + 1,)"""
    flow_bytes: Floats
    """(F,) per round."""
    flow_weight: Floats
    """(F,)"""
    flow_rate: Floats
    """(F,) most bytes/s; infinity: what the links carry."""
    flow_link: Ints
    """(F + 1,)"""
    hop_link: Ints
    """Links of all flows."""

    @property
    def job_flow(self) -> Ints:
        """(J + 1,) first flow of each job."""
        flows: Ints = self.ring_flow[self.phase_ring[self.job_phase]]
        return flows


def pack(jobs: Sequence[SimJob]) -> Workload:
    """Return the jobs as arrays; flows of a phase are ordered by ring, else as given.

    Raises InputError where flows of a ring have other rounds.
    """
    job_phase, phase_ring, ring_flow, flow_link = [0], [0], [0], [0]
    phases: list[SimPhase] = []
    rounds: list[int] = []
    flows: list[SimFlow] = []
    hops: list[int] = []
    for index, job in enumerate(jobs):
        for phase in job.phases:
            phases.append(phase)
            rings: dict[int, int] = {}
            for flow in phase.flows:
                if rings.setdefault(flow.ring, flow.rounds) != flow.rounds:
                    raise InputError(f"job {index}: rounds: expected the same in all of a ring")
            ordered = sorted(phase.flows, key=lambda flow: flow.ring)
            if list(phase.flows) != ordered:
                raise InputError(f"job {index}: flows: expected to be in the order of their rings")
            for ring in sorted(rings):
                rounds.append(rings[ring])
                own = [flow for flow in ordered if flow.ring == ring]
                flows += own
                ring_flow.append(len(flows))
                for flow in own:
                    hops += flow.links
                    flow_link.append(len(hops))
            phase_ring.append(len(rounds))
        job_phase.append(len(phases))
    return Workload(
        _floats(job.start for job in jobs),
        _floats(job.compute for job in jobs),
        _floats(job.stop for job in jobs),
        _ints(-1 if job.iterations is None else job.iterations for job in jobs),
        _ints(job_phase),
        _floats(phase.start for phase in phases),
        np.array([phase.blocks for phase in phases], np.uint8),
        _ints(phase_ring),
        _ints(rounds),
        _ints(ring_flow),
        _floats(flow.bytes for flow in flows),
        _floats(flow.weight for flow in flows),
        _floats(flow.rate for flow in flows),
        _ints(flow_link),
        _ints(hops),
    )


def checked(work: Workload, fabric: Fabric) -> Workload:
    """Return the workload as contiguous arrays of the right types. Raises InputError.

    Jobs whose iteration takes no time stay out: they start never.
    """
    arrays: dict[str, Any] = {one.name: _typed(work, one.name) for one in fields(Workload)}
    typed = Workload(**arrays)
    jobs, flows = len(typed.job_start), len(typed.flow_bytes)
    if jobs > MOST_JOBS or flows > MOST_FLOWS:
        raise InputError(f"jobs: expected up to {MOST_JOBS} with up to {MOST_FLOWS} flows")
    if len(typed.hop_link) > MOST_HOPS_OF_ALL:
        raise InputError(f"hop_link: expected up to {MOST_HOPS_OF_ALL} links of all flows")
    _check_shape(typed)
    within("jobs: start", typed.job_start, -MOST_SECONDS, MOST_SECONDS)
    within("jobs: compute", typed.job_compute, 0.0, MOST_SECONDS)
    within("jobs: stop", np.minimum(typed.job_stop, MOST_SECONDS), 0.0, MOST_SECONDS)
    within("jobs: iterations", typed.job_iterations, -1, 2**62)
    if (typed.job_iterations == 0).any() or (typed.job_stop <= typed.job_start).any():
        raise InputError("jobs: expected at least one iteration, and a stop after the start")
    within("phases: start", typed.phase_start, 0.0, MOST_SECONDS)
    within("rings: rounds", typed.ring_rounds, 1, MOST_ROUNDS)
    within("flows: bytes", typed.flow_bytes, 1e-9, MOST_BYTES, zero=True)
    within("flows: weight", typed.flow_weight, *WEIGHTS)
    within("flows: rate", np.minimum(typed.flow_rate, MOST_BYTES), LEAST_RATE, MOST_BYTES)
    check_routes("flows", typed.flow_link, typed.hop_link, len(fabric.capacity))
    return _without_idle(typed, fabric)


def check_routes(where: str, first: Ints, links: Ints, link_count: int) -> None:
    """Check routes: known links, none twice in a route, not too many. Raises InputError."""
    hops = np.diff(first)
    if (hops > MOST_HOPS).any():
        raise InputError(f"{where}: links: expected up to {MOST_HOPS} of a flow")
    within(f"{where}: links", links, 0, link_count - 1)
    key = np.sort(np.repeat(np.arange(len(hops)), hops) * max(link_count, 1) + links)
    if (key[1:] == key[:-1]).any():
        raise InputError(f"{where}: links: expected each once in a route")


def within(
    where: str, values: Floats | Ints, least: float, most: float, *, zero: bool = False
) -> None:
    """Check that all values are within bounds, or 0 where that is allowed. Raises InputError."""
    bad = ~((values >= least) & (values <= most))
    if zero:
        bad &= values != 0
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{where}: expected {least:g} to {most:g}{' or 0' if zero else ''}, "
            f"got {values[index]:g} at {index}"
        )


def _check_shape(work: Workload) -> None:
    chain = (
        ("job_phase", work.job_phase, len(work.job_start), len(work.phase_start)),
        ("phase_ring", work.phase_ring, len(work.phase_start), len(work.ring_rounds)),
        ("ring_flow", work.ring_flow, len(work.ring_rounds), len(work.flow_bytes)),
        ("flow_link", work.flow_link, len(work.flow_bytes), len(work.hop_link)),
    )
    for name, offsets, count, last in chain:
        if (
            offsets.shape != (count + 1,)
            or offsets[0] != 0
            or offsets[-1] != last
            or (np.diff(offsets) < 0).any()
        ):
            raise InputError(f"{name}: expected {count + 1} offsets from 0 up to {last}")
    if (np.diff(work.ring_flow) == 0).any():
        raise InputError("rings: expected at least one flow in each")
    lengths = {"job": len(work.job_start), "phase": len(work.phase_start),
               "ring": len(work.ring_rounds), "flow": len(work.flow_bytes)}  # fmt: skip
    offsets_of = {name for name, *_ in chain}
    for name in {one.name for one in fields(Workload)} - offsets_of - {"hop_link"}:
        wanted = lengths[name.partition("_")[0]]
        if len(getattr(work, name)) != wanted:
            raise InputError(f"{name}: expected {wanted} values")


def _without_idle(work: Workload, fabric: Fabric) -> Workload:
    """Refuse iterations that are too short to be simulated; those of no time never start."""
    sends = (work.flow_bytes > 0) & (np.diff(work.flow_link) > 0)
    narrow = np.full(len(sends), np.inf)
    flow = np.repeat(np.arange(len(sends)), np.diff(work.flow_link))
    np.minimum.at(narrow, flow, fabric.capacity[work.hop_link])
    ring = np.repeat(np.arange(len(work.ring_rounds)), np.diff(work.ring_flow))
    with np.errstate(divide="ignore", invalid="ignore"):  # failed links, flows of no bytes
        seconds = work.flow_bytes * work.ring_rounds[ring] / np.minimum(narrow, work.flow_rate)
    shortest = work.job_compute.copy()
    job = np.repeat(np.arange(len(shortest)), np.diff(work.job_flow))
    np.maximum.at(shortest, job[sends], seconds[sends])
    short = (shortest > 0) & (shortest < SHORTEST_ITERATION_S)
    if short.any():
        raise InputError(
            f"job {int(np.flatnonzero(short)[0])}: expected an iteration of no time "
            f"or of {SHORTEST_ITERATION_S:g} s and more"
        )
    never = np.where(shortest > 0, work.job_start, np.inf)
    return replace(work, job_start=never)


_KINDS = {"job_start": np.float64, "job_compute": np.float64, "job_stop": np.float64,
          "phase_start": np.float64, "flow_bytes": np.float64, "flow_weight": np.float64,
          "flow_rate": np.float64, "phase_blocks": np.uint8}  # fmt: skip


def _typed(work: Workload, name: str) -> Floats | Ints | Flags:
    given = np.asarray(getattr(work, name))
    kind = _KINDS.get(name, np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iufb":
        raise InputError(f"{name}: expected one row of numbers")
    if kind is not np.float64 and given.dtype.kind == "f" and len(given):
        raise InputError(f"{name}: expected whole numbers")
    return np.ascontiguousarray(given, kind)


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), np.float64)


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)
