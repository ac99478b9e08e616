"""Makes and writes the three files of a generated trace, in the schema of the released ones."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hostcc.errors import HostccError
from hostcc.sim import fabrics
from hostcc.sim.released import Row, Rows, trace_of
from hostcc.sim.trace_generator import (
    NO_WORKER,
    PlannedJob,
    minutes_like,
    plan_jobs,
    published,
)
from hostcc.sim.trace_placement import Hosts, Request, place
from hostcc.sim.trace_timeline import timeline

MIDNIGHT = datetime(2023, 7, 14, tzinfo=UTC)
"""Minute 0: the published curves begin a day before day 0."""
AT_RISK = 0.363
"""Mean over time of the share of large jobs at risk, as published."""
AT_RISK_TOLERANCE = 0.03
TRIES = 24
UNLISTED = 0.137
"""Share of workers on hosts that `topo.csv` lacks."""
EMPTY_COLUMNS = [f"Unnamed: {number}" for number in range(32, 130)]
FILES = ("topo", "job", "worker")


@dataclass(frozen=True)
class _World:
    """Hosts, those that are not listed at the end of each pod."""

    address: list[str]
    pod: list[str]
    tor: list[str]
    listed: list[bool]
    hosts: Hosts


def generate(
    seed: int,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    tries: int = TRIES,
) -> Rows:
    """Return the rows of a trace.

    Jobs are placed anew until the share at risk is the published one, on the fabric `released`:
    how many are depends on chance, too, so a placement is kept only when it comes close. The
    closest of `tries` placements is taken.
    """
    progress("starts of jobs", 0, tries + 1)
    rng = random.Random(f"hostcc lingjun {seed}")
    world = _world(rng)
    jobs = plan_jobs(rng)
    requests = [
        Request(job.start, job.start + (job.minutes or 0), max(job.gpus, 0), job.hosts)
        for job in jobs
    ]
    named = rng.getrandbits(64)
    apart = 0.5
    found: tuple[float, Rows] | None = None
    for number in range(tries):
        progress("hosts of jobs", number + 1, tries + 1)
        placed = place(random.Random(f"{named} {number}"), world.hosts, requests, apart)
        rows = _rows(random.Random(named), world, jobs, placed)
        risk = share_at_risk(rows)
        if found is None or abs(risk - AT_RISK) < abs(found[0] - AT_RISK):
            found = risk, rows
        if abs(risk - AT_RISK) <= AT_RISK_TOLERANCE * AT_RISK:
            break
        apart = min(max(apart + risk - AT_RISK, 0.0), 1.0)  # the slope is about -0.7
    assert found is not None
    return found[1]


def share_at_risk(rows: Rows) -> float:
    """Return the mean over time of the share of large jobs that are at risk."""
    trace = trace_of(rows)
    topology = fabrics.released([one.pod for one in trace.hosts], [one.tor for one in trace.hosts])
    return timeline(trace, topology).mean_share("jobs_at_risk", "large_jobs")


def write(rows: Rows, folder: Path) -> list[Path]:
    """Write the files as the released ones are: BOM, CRLF, many empty columns. Raises HostccError.

    All are written under other names first, so that none is there when the disk is full.
    """
    columns = published()["columns"]
    heads = {**columns, "job": [*columns["job"], *EMPTY_COLUMNS]}
    tables = {"topo": rows.topo, "job": rows.jobs, "worker": rows.workers}
    targets = [folder / f"{name}.csv" for name in FILES]
    parts = [folder / f".{name}.csv.part" for name in FILES]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, part in zip(FILES, parts, strict=True):
            part.write_bytes(_encoded(heads[name], tables[name]))
        for part, target in zip(parts, targets, strict=True):
            part.replace(target)
    except OSError as error:
        raise HostccError(f"{error.filename or folder}: {error.strerror}") from error
    finally:
        for part in parts:
            if folder.is_dir():
                part.unlink(missing_ok=True)
    return targets


def _encoded(head: Sequence[str], rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    out = csv.DictWriter(text, head, restval="", extrasaction="ignore", lineterminator="\r\n")
    out.writeheader()
    out.writerows(rows)
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def _world(rng: random.Random) -> _World:
    address: list[str] = []
    pods: list[str] = []
    tors: list[str] = []
    listed: list[bool] = []
    by_pod = []
    numbers: list[int] = []
    for pod, sizes in published()["hosts_per_tor"].items():
        counts = [int(size) for size, count in sizes.items() for _ in range(count)]
        rng.shuffle(counts)
        first, first_tor = len(address), max(numbers, default=-1) + 1
        below = [tor for tor, count in enumerate(counts) for _ in range(count)]
        hidden = round(len(below) * UNLISTED / (1 - UNLISTED))
        for place_in_pod, tor in enumerate([*below, *rng.choices(range(len(counts)), k=hidden)]):
            address.append(f"{rng.getrandbits(256):064x}")
            pods.append(pod)
            tors.append(f"S{tor + 1}")
            numbers.append(first_tor + tor)
            listed.append(place_in_pod < len(below))
        by_pod.append(range(first, len(address)))
    return _World(address, pods, tors, listed, Hosts(numbers, by_pod))


def _rows(
    rng: random.Random,
    world: _World,
    jobs: Sequence[PlannedJob],
    placed: Sequence[Sequence[tuple[int, int]]],
) -> Rows:
    topo = [
        {"ip": address, "DSW": "G6", "PSW": pod, "ASW": tor}
        for address, pod, tor, listed in zip(
            world.address, world.pod, world.tor, world.listed, strict=True
        )
        if listed
    ]
    made = _JobRows(rng, len(jobs))
    rows: list[tuple[int, dict[str, str]]] = []
    workers: list[dict[str, str]] = []
    for job, own in zip(jobs, placed, strict=True):
        row = made.row(job)
        rows.append((job.start, row))
        on = [(world.address[host], gpus) for host, gpus in own]
        if job.gpus != NO_WORKER:
            workers += [_worker(row, *one) for one in on or [("", 0)]]
    rows += made.still_running(published()["status"]["Running"])
    others = published()["rows"]["jobs_in_worker"] - published()["rows"]["jobs_in_both"]
    for number in range(others):
        address = rng.choice(world.address)
        workers.append(_worker({"job_name": f"elsewhere-{number}"}, address, 0))
    rows.sort(key=lambda item: (item[0], item[1]["job_name"]))
    return Rows(
        Path(),
        _numbered("topo", topo),
        _numbered("job", [row for _, row in rows]),
        _numbered("worker", workers),
    )


def _numbered(name: str, rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return rows with all columns, an id, and where each will be."""
    columns = dict.fromkeys(published()["columns"][name], "")
    return tuple(
        {**columns, "id": str(1000 + line), **row, "": f"{name}.csv:{line}"}
        for line, row in enumerate(rows, 2)
    )


def _worker(job: Row, address: str, gpus: int) -> dict[str, str]:
    resources = {"cpu": f"{8 * gpus}", "memory": f"{100 * gpus}Gi", "nvidia.com/gpu": f"{gpus}"}
    if gpus == 8:
        resources["koordinator.sh/rdma"] = "1"
    return {
        "job_name": job["job_name"],
        "worker_name": f"{job['job_name']}-worker",
        "replica_type": "Worker",
        "host_ip": address,
        "RES": json.dumps(resources if gpus else {"cpu": "4000m", "memory": "16Gi"}),
    }


class _JobRows:
    """Rows of jobs, with the published numbers of each status, model and time in the queue."""

    def __init__(self, rng: random.Random, count: int) -> None:
        facts = published()
        self._rng = rng
        self._waits = minutes_like("queue_minutes", count)
        self._states = [
            state
            for state, amount in facts["status"].items()
            for _ in range(amount)
            if state != "Running"
        ]
        models = [model for model, amount in facts["model"].items() for _ in range(amount)]
        self._models = [*models, *(f"model{number}" for number in range(count - len(models)))]
        for values in (self._waits, self._states, self._models):
            rng.shuffle(values)
        self._series: dict[int, tuple[str, str]] = {}
        self._bad = True
        """Whether the one row is to come that starts before it was submitted."""

    def row(self, job: PlannedJob) -> dict[str, str]:
        """Return the row of a job, without its number."""
        state, wait = self._states.pop(), self._waits.pop()
        model, name = self._models.pop(), f"{self._rng.getrandbits(48):012x}"
        if job.series >= 0:
            model, first = self._series.setdefault(job.series, (model, name))
            name = f"{first}-{name}"
        submitted = job.start - wait
        if job.gpus == NO_WORKER and self._bad:
            self._bad, submitted = False, job.start + 16_560
        row = {
            "job_name": f"dlc-{name}",
            "kind": self._rng.choice(published()["kind"]),
            "model": model,
            "status": state,
            "gmt_job_submitted": _text(submitted),
            "gmt_created": _text(submitted),
        }
        if job.minutes is not None:
            over = "gmt_job_stopped" if state == "Stopped" else "gmt_job_finished"
            row["gmt_job_running"] = _text(job.start)
            row[over] = _text(job.start + job.minutes)
        return row

    def still_running(self, count: int) -> list[tuple[int, dict[str, str]]]:
        """Return start and row of jobs without an end, and without workers."""
        rows = []
        for number in range(count):
            start = self._rng.randrange(20_000)
            row = {"job_name": f"dlc-running-{number}", "model": "unknown", "status": "Running"}
            times = ("gmt_job_submitted", "gmt_job_running", "gmt_created")
            rows.append((start, {**row, **dict.fromkeys(times, _text(start))}))
        return rows


def _text(minute: int) -> str:
    moment = MIDNIGHT + timedelta(minutes=minute)
    date = f"{moment.year}/{moment.month}/{moment.day}"
    return f"{date} {moment.hour:02}:{moment.minute:02}"
