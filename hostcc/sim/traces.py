"""Reads the routing paper's traffic files, which are untrusted input.

A folder has `topology.properties` and `jobs_N/ring_R/job_I-MODEL.txt`, one line per flow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hostcc.errors import InputError
from hostcc.system import input_file

Ints = NDArray[np.int64]

MAX_BYTES = 64 << 20
"""Largest file that is read."""
MAX_ROWS = 1_000_000
MAX_NODES = 1_000_000
MAX_JOBS = 4096
MAX_NUMBER = 2**62
COLUMNS = ("src", "dst", "src_tor", "dst_tor", "start", "size", "compute", "stage")

_JOB = re.compile(r"job_(\d{1,4})-([A-Za-z0-9_.-]{1,40})\.txt")
_FOLDER = re.compile(r"jobs_(\d{1,4})")
_RING = re.compile(r"ring_(\d{1,6})")
_EDGES = re.compile(r"(\d{1,9})(?::(\d{1,9}))?-(\d{1,9})(?::(\d{1,9}))?")


@dataclass(frozen=True)
class LeafSpine:
    """The fabric of the routing paper: every ToR linked to every spine, NICs below ToRs."""

    tors: int
    spines: int
    rate: float
    """Bit/s of every link."""
    first_nic: int
    """NICs are numbered from here."""
    nic_tor: Ints
    """(N,) the ToR of each NIC."""


@dataclass(frozen=True)
class JobTraffic:
    """Flows of one iteration of a job; all arrays are (F,)."""

    name: str
    """`I-MODEL`."""
    src: Ints
    """NICs."""
    dst: Ints
    src_tor: Ints
    dst_tor: Ints
    start: Ints
    """ns"""
    size: Ints
    """bytes"""
    compute: Ints
    """ns that the job computes before it sends."""
    stage: Ints


@dataclass(frozen=True)
class Traffic:
    """Jobs that run at the same time."""

    name: str
    """`jobs_N/ring_R`."""
    ring: int
    jobs: tuple[JobTraffic, ...]


def read_traffic(folder: Path) -> tuple[LeafSpine, tuple[Traffic, ...]]:
    """Return the fabric and all sets of jobs of a folder, by (N, R). Raises InputError."""
    fabric = read_topology(folder / "topology.properties")
    found = []
    for outer in sorted(_folders(folder, _FOLDER), key=lambda path: (_number(path), path.name)):
        for inner in sorted(_folders(outer, _RING), key=lambda path: (_number(path), path.name)):
            files = [path for path in inner.iterdir() if _JOB.fullmatch(path.name)]
            if len(files) > MAX_JOBS:
                raise InputError(f"{inner}: expected at most {MAX_JOBS} jobs, got {len(files)}")
            ordered = sorted(files, key=lambda path: (_number(path), path.name))
            jobs = tuple(read_job(path, fabric) for path in ordered)
            found.append(Traffic(f"{outer.name}/{inner.name}", _number(inner), jobs))
    if not found:
        raise InputError(f"{folder}: expected jobs_N/ring_R folders, got none")
    return fabric, tuple(found)


def read_topology(path: Path) -> LeafSpine:
    """Return the fabric of a `topology.properties`. Raises InputError."""
    values = _properties(path)
    tors = _span(path, values, "switches_which_are_tors")
    cores = _span(path, values, "cores")
    servers = _span(path, values, "servers")
    if tors.start != 0 or cores.start != tors.stop:
        raise InputError(f"{path}: cores: expected to follow the ToRs, which start at 0")
    nic_tor = np.full(len(servers), -1, np.int64)
    spine_links = np.zeros((len(tors), len(cores)), np.bool_)
    for low, high in _edges(path, values):
        if low.start in servers and low.stop - 1 in servers and len(high) == 1 and high[0] in tors:
            nic_tor[low.start - servers.start : low.stop - servers.start] = high[0]
        elif _within(low, tors) and _within(high, cores):
            spine_links[low.start : low.stop, high.start - len(tors) : high.stop - len(tors)] = True
        else:
            raise InputError(f"{path}: undirected_edges: expected servers-ToR or ToRs-cores")
    if (nic_tor < 0).any() or not spine_links.all():
        raise InputError(f"{path}: undirected_edges: expected all servers and all ToR-core pairs")
    return LeafSpine(len(tors), len(cores), _rate(path, values), servers.start, nic_tor)


def read_job(path: Path, fabric: LeafSpine) -> JobTraffic:
    """Return one job's flows. Raises InputError for what does not fit the fabric."""
    name = _JOB.fullmatch(path.name)
    if name is None:
        raise InputError(f"{path}: expected a name like job_0-MODEL.txt")
    rows = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        if len(words) != len(COLUMNS) or not all(w.isascii() and w.isdigit() for w in words):
            raise InputError(f"{path}:{number}: expected {len(COLUMNS)} whole numbers")
        if any(len(word) > 19 for word in words) or max(map(int, words)) > MAX_NUMBER:
            raise InputError(f"{path}:{number}: expected numbers up to {MAX_NUMBER}")
        rows.append([int(word) for word in words])
        if len(rows) > MAX_ROWS:
            raise InputError(f"{path}: expected at most {MAX_ROWS} flows")
    columns = np.array(rows, np.int64).reshape(-1, len(COLUMNS)).T
    flows = JobTraffic(f"{name[1]}-{name[2]}", *columns)
    for end, tor, what in ((flows.src, flows.src_tor, "src"), (flows.dst, flows.dst_tor, "dst")):
        nic = end - fabric.first_nic
        known = (nic >= 0) & (nic < len(fabric.nic_tor))
        right = known & (fabric.nic_tor[np.where(known, nic, 0)] == tor)
        if not right.all():
            row = int(np.flatnonzero(~right)[0])
            raise InputError(f"{path}: flow {row}: {what}: expected a NIC of ToR {tor[row]}")
    return flows


def _text(path: Path) -> str:
    data = input_file.read(path, MAX_BYTES)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected UTF-8 text") from None


def _properties(path: Path) -> dict[str, str]:
    values = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            key, equals, value = line.partition("=")
            if not equals:
                raise InputError(f"{path}:{number}: expected KEY=VALUE, got {line!r:.60}")
            values[key.strip()] = value.strip()
    return values


def _rate(path: Path, values: dict[str, str]) -> float:
    try:
        rate = float(values["link_data_rate_bit_per_ns"]) * 1e9
    except (KeyError, ValueError):
        rate = -1.0
    if not 0 < rate <= 1e18:
        raise InputError(f"{path}: link_data_rate_bit_per_ns: expected a positive number")
    return rate


def _folders(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if pattern.fullmatch(path.name)]
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from None


def _number(path: Path) -> int:
    match = re.search(r"_(\d+)", path.name)
    return int(match[1]) if match else 0


def _span(path: Path, values: dict[str, str], key: str) -> range:
    match = re.fullmatch(r"incl_range\((\d{1,9}),\s*(\d{1,9})\)", values.get(key, ""))
    span = range(int(match[1]), int(match[2]) + 1) if match else range(0)
    if not 1 <= len(span) <= MAX_NODES:
        raise InputError(f"{path}: {key}: expected incl_range(FIRST,LAST)")
    return span


def _edges(path: Path, values: dict[str, str]) -> list[tuple[range, range]]:
    text = re.fullmatch(r"incl_range\((.*)\)", values.get("undirected_edges", ""))
    found = []
    for part in text[1].split(",") if text else []:
        match = _EDGES.fullmatch(part.strip())
        if match is None:
            raise InputError(f"{path}: undirected_edges: expected A:B-C:D, got {part!r:.60}")
        a, b, c, d = (int(n) if n else None for n in match.groups())
        assert a is not None
        assert c is not None
        found.append((range(a, (b or a) + 1), range(c, (d or c) + 1)))
    return found


def _within(part: range, whole: range) -> bool:
    return len(part) > 0 and part.start >= whole.start and part.stop <= whole.stop
