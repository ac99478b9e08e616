"""Fabrics and traffic for the measurement of path assignment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from hostcc.errors import InputError
from hostcc.schedule.name_list import NameList
from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths.clos import Clos, Flows
from hostcc.schedule.paths.fabric import Ints
from hostcc.schedule.problem import Problem
from hostcc.sim import traces
from hostcc.system import input_file, validate

EQUAL, UNEQUAL = "equal", "unequal"
MAX_GOLDEN_BYTES = 4 << 20
ARRIVAL_JOBS = 5000
"""Jobs that run when one more arrives."""
MAX_SOLVED = 3000
"""Flows up to which the optimum is worth a solver's time."""
CROWD = ((1000, 64, 32), (20_000, 64, 32))


@dataclass(frozen=True)
class Case:
    """One fabric with one set of flows."""

    name: str
    demands: str
    clos: Clos
    flows: Flows
    failed: int = 0
    optimum: float | None = None
    """The smallest possible peak, where it is known."""
    solvable: bool = True


_Tor = Annotated[int, msgspec.Meta(ge=0, lt=closes.MAX_TORS)]
_Load = Annotated[float, msgspec.Meta(ge=0, le=1e30)]


class Golden(msgspec.Struct, frozen=True):
    """One case of a golden file."""

    name: str
    tors: Annotated[int, msgspec.Meta(ge=1, le=closes.MAX_TORS)]
    spines: Annotated[int, msgspec.Meta(ge=1, le=closes.MAX_SPINES)]
    commodities: tuple[tuple[_Tor, _Tor, _Load], ...]
    optimal_max_load: _Load


class GoldenFile(msgspec.Struct, frozen=True):
    """A golden file."""

    cases: tuple[Golden, ...]


def golden(path: Path) -> Iterator[Case]:
    """Cases whose optimum is known.  Raises InputError."""
    data = input_file.read(path, MAX_GOLDEN_BYTES)
    try:
        parsed = msgspec.json.decode(data)
    except validate.UNDECODABLE as error:
        raise InputError(f"{path}: expected JSON: {error}") from None
    for case in validate.convert(parsed, GoldenFile, str(path)).cases:
        rows = np.array(case.commodities, np.float64).reshape(-1, 3)
        src, dst = rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64)
        if max(src.max(initial=0), dst.max(initial=0)) >= case.tors:
            raise InputError(f"{path}: {case.name}: expected ToRs below {case.tors}")
        demands = EQUAL if len(np.unique(rows[:, 2])) < 2 else UNEQUAL
        yield Case(
            f"golden {case.name}",
            demands,
            closes.uniform(case.tors, case.spines),
            Flows(src, dst, rows[:, 2], np.arange(len(rows))),
            optimum=case.optimal_max_load,
        )


def traffic(folder: Path, failures: Iterable[int], seed: int) -> Iterator[Case]:
    """The routing paper's jobs: every flow at its NIC's rate, and by bytes per iteration."""
    fabric, sets = traces.read_traffic(folder)
    clos = closes.uniform(fabric.tors, fabric.spines)
    for count in failures:
        if count >= fabric.spines:
            raise InputError(f"--failed-spines: expected less than {fabric.spines}, got {count}")
        left = closes.without_spines(clos, failed_spines(fabric.spines, count, seed))
        for jobs in sets:
            src = np.concatenate([job.src_tor for job in jobs.jobs])
            dst = np.concatenate([job.dst_tor for job in jobs.jobs])
            size = np.concatenate([job.size for job in jobs.jobs]).astype(np.float64)
            nics = [np.concatenate([getattr(job, end) for job in jobs.jobs]) for end in _ENDS]
            key = nics[0] * 4096 + nics[1]
            rates = Flows(src, dst, np.ones(len(src)), key)
            yield Case(f"{jobs.name} rates", EQUAL, left, rates, count)
            if len(np.unique(size)) > 1:
                by_bytes = Flows(src, dst, size, key)
                yield Case(f"{jobs.name} bytes", UNEQUAL, left, by_bytes, count)


_ENDS = ("src", "dst")


def failed_spines(spines: int, count: int, seed: int) -> Ints:
    """Which spines fail."""
    return np.sort(np.random.default_rng(seed).permutation(spines)[:count])


def permutations(seed: int) -> Iterator[Case]:
    """Every NIC sends to one other: full bandwidth, and two NICs to an uplink."""
    for tors, spines, nics in ((8, 8, 8), (16, 8, 16), (64, 32, 32), (64, 32, 64)):
        for unequal in (False, True):
            generator = np.random.default_rng([seed, tors, nics, unequal])
            target = generator.permutation(tors * nics)
            src, dst = np.arange(tors * nics) // nics, target // nics
            demand = generator.integers(1, 11, len(src)) if unequal else np.ones(len(src))
            yield Case(
                f"permutation {tors} x {spines}, {nics} NICs a ToR",
                UNEQUAL if unequal else EQUAL,
                closes.uniform(tors, spines),
                Flows(src, dst, demand.astype(np.float64), np.arange(len(src))),
                solvable=len(src) <= MAX_SOLVED,
            )


def uneven(seed: int) -> Iterator[Case]:
    """Fabrics that are not regular: single links have failed, or half of the spines are faster."""
    tors, spines, flows = 16, 8, 200
    for kind in ("links failed", "links of two rates"):
        for unequal in (False, True):
            generator = np.random.default_rng([seed, len(kind), unequal])
            clos = closes.uniform(tors, spines)
            if kind == "links failed":
                failed = generator.permutation(tors * spines)[: tors * spines // 10]
                clos = closes.without_links(clos, [divmod(int(one), spines) for one in failed])
            else:
                rate = np.where(np.arange(spines) % 2, 2.5, 1.0)
                clos = closes.make(np.tile(rate, (tors, 1)), np.tile(rate, (tors, 1)))
            src = generator.integers(0, tors, flows)
            dst = (src + generator.integers(1, tors, flows)) % tors
            demand = generator.integers(1, 11, flows) if unequal else np.ones(flows)
            yield Case(
                f"{tors} x {spines}, {kind}",
                UNEQUAL if unequal else EQUAL,
                clos,
                Flows(src, dst, demand.astype(np.float64), np.arange(flows)),
            )


def arrival(jobs: int, seed: int, each: int = 4) -> Problem:
    """Jobs of `each` flows on 64 ToRs and 32 spines; all but the last know their paths."""
    tors, spines = 64, 32
    generator = np.random.default_rng([seed, jobs])
    src, dst = (axis.ravel() for axis in np.indices((tors, tors)))
    src, dst = src[src != dst], dst[src != dst]
    spine = np.arange(spines)
    links = np.stack(
        [src[:, None] * spines + spine, tors * spines + dst[:, None] * spines + spine], axis=2
    )
    flows = jobs * each
    table = generator.integers(0, len(src), flows)
    compute = generator.uniform(0.4, 2.0, jobs)
    comm = compute * generator.uniform(0.02, 0.1, jobs)
    on = table * spines + generator.integers(0, spines, flows)
    on[-each:] = -1
    return Problem(
        job_ids=tuple(f"job{index}" for index in range(jobs)),
        flow_ids=tuple(f"flow{index}" for index in range(flows)),
        link_ids=tuple(map(str, range(2 * tors * spines))),
        path_ids=NameList.of(tuple(map(str, range(len(src) * spines)))),
        capacity=np.ones(2 * tors * spines),
        compute=compute,
        comm_start=compute * generator.choice([0.25, 0.5, 0.75, 1.0], jobs),
        work=8 * compute,
        gpus=np.full(jobs, 8.0),
        weight=np.ones(jobs),
        slowdown=np.ones(jobs),
        phase=np.zeros(jobs),
        period=np.zeros(jobs),
        comm=np.zeros(jobs),
        confidence=np.ones(jobs),
        flow_job=np.repeat(np.arange(jobs), each),
        flow_bytes=np.repeat(comm, each),
        flow_table=table,
        flow_path=on,
        table_start=np.arange(len(src) + 1) * spines,
        path_start=np.arange(len(src) * spines + 1) * 2,
        path_links=links.ravel(),
        blind=np.zeros(jobs, np.bool_),
    )


def crowds(seed: int) -> Iterator[Case]:
    """Many elephants between random ToRs: for the time that an assignment takes."""
    for count, tors, spines in CROWD:
        for unequal in (False, True):
            generator = np.random.default_rng([seed, count, unequal])
            src = generator.integers(0, tors, count)
            dst = (src + generator.integers(1, tors, count)) % tors
            demand = generator.uniform(1, 10, count) if unequal else np.ones(count)
            yield Case(
                f"{count} elephants",
                UNEQUAL if unequal else EQUAL,
                closes.uniform(tors, spines),
                Flows(src, dst, demand, np.arange(count)),
                solvable=count <= MAX_SOLVED,
            )
