"""The document `hostcc.sim/1` of replayed schedulers, and the files that keep finished ones."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hostcc.errors import HostccError, InputError
from hostcc.sim.cluster_run import Cluster, ClusterResult
from hostcc.sim.released import Trace
from hostcc.sim.workload_table import Workloads
from hostcc.system import input_file
from hostcc.system.validate import UNDECODABLE

SCHEMA = "hostcc.sim/1"
MOST_BYTES = 256 << 20


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finished run."""

    inputs: str
    """Digest of all that determines it."""
    scheduler: str
    figures: dict[str, Any]
    seconds: dict[str, float]
    jobs: tuple[dict[str, Any], ...]


def header(
    trace: Trace, given: Cluster, workloads: Workloads, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the document without its runs. `options` are those of the command."""
    topology = given.topology
    wiring = [topology.nics, topology.host_tors, topology.tor_aggs, topology.agg_cores]
    return {
        "schema": SCHEMA,
        "trace": {
            "digest": _digest([[dataclasses.astuple(job) for job in trace.jobs],
                               [dataclasses.astuple(host) for host in trace.hosts]]),
            "jobs": len(given.jobs),
            "left_out": dict(sorted(given.left_out.items())),
        },
        "fabric": {
            "name": topology.name,
            "digest": _digest([wiring, sorted(topology.rates.items())]),
            "rates": dict(topology.rates),
        },
        "workloads": {"digest": workloads.digest},
        "options": dict(options),
    }  # fmt: skip


def entry(result: ClusterResult) -> dict[str, Any]:
    """Return a run of the document."""
    return {
        "scheduler": result.scheduler,
        **result.figures,
        "seconds": dict(result.seconds),
    }


def kept(folder: Path, head: Mapping[str, Any], scheduler: str) -> ClusterResult | None:
    """Return a run that is finished, with the same inputs; None: there is none.

    Raises InputError for a file that was not written by `keep`.
    """
    path = folder / f"{scheduler}.json"
    if not path.exists():
        return None
    try:
        found = msgspec.json.decode(input_file.read(path, MOST_BYTES), type=_Kept)
    except UNDECODABLE as error:
        raise InputError(f"{path}: expected a finished run, or no file: {error}") from None
    if found.inputs != _digest(head):
        raise InputError(f"{path}: expected a run of the same trace, fabric, workloads and options")
    return ClusterResult(found.scheduler, found.figures, found.seconds, found.jobs)


def keep(folder: Path, head: Mapping[str, Any], result: ClusterResult) -> list[Path]:
    """Write a finished run, and a CSV of its jobs; each appears whole. Raises HostccError."""
    run, rows = folder / f"{result.scheduler}.json", folder / f"{result.scheduler}.jobs.csv"
    stored = _Kept(
        _digest(head), result.scheduler, dict(result.figures), dict(result.seconds),
        tuple(map(dict, result.jobs)),
    )  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = rows.with_suffix(".part")
        with part.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(result.jobs[0]))
            writer.writeheader()
            writer.writerows(result.jobs)
        part.replace(rows)
        part = run.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(stored))
        part.replace(run)
    except OSError as error:
        raise HostccError(f"{error.filename or folder}: {error.strerror}") from error
    return [run, rows]


def document(head: Mapping[str, Any], results: Sequence[ClusterResult]) -> dict[str, Any]:
    """Return the whole document."""
    return {**head, "runs": [entry(result) for result in results]}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
