"""Crux's cluster (Figures 23 to 25): replays of a generated trace, each kept once it is there."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from benchmarks.cases import CaseStore, Identity
from benchmarks.evidence.document import Request
from benchmarks.evidence.readings import FOLDER
from hostcc.errors import HostccError
from hostcc.sim import cluster_pool, cluster_run, fabrics, released, trace_files, workload_table
from hostcc.sim.cluster_jobs import Setting
from hostcc.system import toml_file

TRACE_SEED = 7
DAYS, QUICK_DAYS = 14.0, 2.0
WORKERS = 2
CALIBRATION = FOLDER / "calibration.toml"
Rate = Annotated[float, Meta(ge=1e-3, le=1e6)]


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """The three numbers that are free."""

    uplink_gbit: Rate
    scale: Annotated[float, Meta(ge=1e-6, le=1e6)]
    queue_pairs: Annotated[int, Meta(ge=1, le=64)]


@dataclass(frozen=True)
class Case:
    """One replay."""

    scheduler: str
    calibration: Calibration
    fabric: str = "crux-clos"
    placement: str = "trace"
    days: float = DAYS


class Kept(Struct, frozen=True):
    """What a replay found."""

    figures: dict[str, Any]
    seconds: dict[str, float]


def calibration(request: Request) -> Calibration:
    """Return the numbers found by the last fit: in --out, or else those that are shipped.

    Raises InputError.
    """
    own = None if request.out is None else request.out / CALIBRATION.name
    path = own if own is not None and own.exists() else CALIBRATION
    return toml_file.read(path, Calibration)


def write(found: Calibration, folder: Path, why: str) -> Path:
    """Write the numbers of a fit; raises HostccError."""
    path = folder / CALIBRATION.name
    rows = [
        f"# {why}",
        *(f"{key} = {value!r}" for key, value in msgspec.to_builtins(found).items()),
    ]
    part = path.with_suffix(".part")
    try:
        part.write_text("\n".join(rows) + "\n")
        part.replace(path)
    except OSError as error:
        raise HostccError(f"{path}: {error.strerror}") from error
    return path


def halved_and_doubled(given: Calibration) -> list[tuple[str, Calibration]]:
    """Return the calibration with each number halved, and doubled."""
    found = []
    for name in ("uplink_gbit", "scale"):
        for words, factor in (("half", 0.5), ("twice", 2.0)):
            value = getattr(given, name) * factor
            found.append((f"{words} {name}", msgspec.structs.replace(given, **{name: value})))
    for words, pairs in (
        ("half", max(1, given.queue_pairs // 2)),
        ("twice", 2 * given.queue_pairs),
    ):
        if pairs != given.queue_pairs:
            other = msgspec.structs.replace(given, queue_pairs=pairs)
            found.append((f"{words} queue_pairs", other))
    return found


def results(cases: Sequence[Case], request: Request, workers: int = WORKERS) -> dict[Case, Kept]:
    """Return what each replay finds; those that --out has are not run again."""
    store = CaseStore(None if request.out is None else request.out / "cluster", Kept)
    found = {case: store.load(_name(case), _identity(case)) for case in cases}
    missing = [case for case, one in found.items() if one is None]
    done = len(found) - len(missing)
    request.tell("replays", done, len(found))
    if missing:
        with _trace_folder(request) as folder:
            runs = [partial(_run, case, folder) for case in missing]
            for index, result in cluster_pool.results(runs, workers):
                case = missing[index]
                kept = Kept(dict(result.figures), dict(result.seconds))
                store.save(_name(case), _identity(case), kept)
                found[case] = kept
                done += 1
                request.tell("replays", done, len(found))
    return {case: one for case, one in found.items() if one is not None}


@contextmanager
def _trace_folder(request: Request) -> Iterator[str]:
    """The generated trace on disk, from where every process reads it."""
    with tempfile.TemporaryDirectory() as folder:
        trace_files.write(trace_files.generate(TRACE_SEED, request.tell), Path(folder))
        yield folder


def _run(case: Case, folder: str) -> cluster_run.ClusterResult:
    return cluster_run.run(_cluster(replace(case, scheduler=""), folder), case.scheduler)


@cache
def _trace(folder: str) -> released.Trace:
    return released.read_trace(Path(folder))


@cache
def _cluster(case: Case, folder: str) -> cluster_run.Cluster:
    trace = _trace(folder)
    minutes = round(case.days * cluster_run.DAY_MINUTES)
    first = cluster_run.busiest(trace, minutes)
    numbers = case.calibration
    uplink = numbers.uplink_gbit * fabrics.GBIT
    hosts = max(fabrics.CRUX_HOSTS, len(trace.hosts))
    make = fabrics.crux_double if case.fabric == "crux-double" else fabrics.crux_clos
    setting = Setting(case.placement, 0, numbers.queue_pairs, numbers.scale)
    return cluster_run.cluster(
        trace, make(uplink, hosts=hosts), workload_table.read(), first, minutes, setting
    )


def _name(case: Case) -> str:
    return f"{case.scheduler}-{_identity(case).digest[:16]}"


@cache
def _sources() -> str:
    """Return a digest of the code that replays."""
    root = Path(cluster_run.__file__).parent
    files = sorted([*root.rglob("*.py"), *root.rglob("*.[ch]"), *root.rglob("*.toml")])
    files += sorted((root.parent / "schedule").rglob("*.py"))
    text = b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)
    return hashlib.sha256(text).hexdigest()


def _identity(case: Case) -> Identity:
    asked = msgspec.json.encode(
        {**asdict(case), "calibration": case.calibration, "trace": TRACE_SEED}
    )
    definition = hashlib.sha256(asked).hexdigest()
    digest = hashlib.sha256((definition + _sources()).encode()).hexdigest()
    return Identity(definition, digest)


def mean_of_course(kept: Kept) -> float:
    """Return the mean over time of the utilisation, of the spans in which jobs ran."""
    values = [value for value in kept.figures["course"]["utilisation"] if value is not None]
    return sum(values) / len(values) if values else math.nan
