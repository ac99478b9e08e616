"""Reads the released trace of a training cluster: `job.csv`, `worker.csv`, `topo.csv`.

The files of github.com/alibaba/alibaba-lingjun-dataset-2023, and others of that schema, as they
are: untrusted input. Rows are joined by job name. A job that cannot be replayed is left out and
counted by reason; a file that is not of this schema is refused.
"""

from __future__ import annotations

import csv
import heapq
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from hostcc.errors import InputError
from hostcc.system import input_file

MOST_FILE_BYTES = 64 << 20
MOST_ROWS = 500_000
"""Of a file; the released ones have up to 23,742."""
MOST_GPUS_OF_HOST = 8
MOST_GPUS_OF_WORKER = 1024
MOST_MINUTES = 366 * 24 * 60
"""Longest that a job may run."""
JOB_COLUMNS = (
    "id", "job_name", "model", "status", "gmt_job_submitted", "gmt_job_running",
    "gmt_job_stopped", "gmt_job_finished",
)  # fmt: skip
WORKER_COLUMNS = ("id", "job_name", "host_ip", "RES")
TOPO_COLUMNS = ("ip", "DSW", "PSW", "ASW")
_TIME = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2}) (\d{1,2}):(\d{2})")


Row = Mapping[str, str]
"""Columns that are used, and under "" where it is: `file:line`."""


@dataclass(frozen=True)
class Rows:
    """The rows of the three files."""

    folder: Path
    topo: tuple[Row, ...]
    jobs: tuple[Row, ...]
    workers: tuple[Row, ...]


@dataclass(frozen=True)
class TracedJob:
    """A job that ran on GPUs; times in minutes since 1970."""

    name: str
    number: int
    """`id`, which orders jobs of one minute."""
    model: str
    submitted: int
    start: int
    end: int
    gpus: int
    hosts: tuple[tuple[int, int], ...]
    """(Index of the host, GPUs on it), by host; workers without a host are not in it."""


@dataclass(frozen=True)
class TracedHost:
    """A host and where it is connected."""

    address: str
    pod: str
    """`PSW`."""
    tor: str
    """`PSW/ASW`: the same ASW of two PSWs is two switches."""
    known: bool
    """Whether `topo.csv` has it."""


@dataclass(frozen=True)
class Trace:
    """A released trace."""

    jobs: tuple[TracedJob, ...]
    """By start, then by id."""
    hosts: tuple[TracedHost, ...]
    """Those of `topo.csv` by address, then those that it lacks."""
    left_out: Mapping[str, int]
    """Jobs by reason."""
    rows: Mapping[str, int]
    """Rows of each file, and of workers: on unknown hosts, without resources, beyond a host."""


def read_rows(folder: Path) -> Rows:
    """Return the rows of a folder's files. Raises InputError with file, row and column."""
    return Rows(
        folder,
        tuple(_rows(folder / "topo.csv", TOPO_COLUMNS)),
        tuple(_rows(folder / "job.csv", JOB_COLUMNS)),
        tuple(_rows(folder / "worker.csv", WORKER_COLUMNS)),
    )


def read_trace(folder: Path) -> Trace:
    """Return the trace of a folder. Raises InputError with file, row and column."""
    return trace_of(read_rows(folder))


def trace_of(rows: Rows) -> Trace:
    """Join the rows. Raises InputError with file, row and column."""
    topo, jobs, workers = rows.topo, rows.jobs, rows.workers
    counts = Counter({"topo": len(topo), "job": len(jobs), "worker": len(workers)})
    hosts = _hosts(topo, workers, rows.folder / "topo.csv")
    index = {host.address: place for place, host in enumerate(hosts)}
    gpus: dict[str, Counter[int]] = {}
    for row in workers:
        on = gpus.setdefault(row["job_name"], Counter())
        place = index.get(row["host_ip"], -1)
        found_gpus = gpus_of(row)
        amount = found_gpus or 0
        on[place] += amount
        counts["worker without resources"] += found_gpus is None
        counts["worker on an unknown host"] += place >= 0 and not hosts[place].known
        counts["worker beyond a host"] += amount > MOST_GPUS_OF_HOST
    left_out: Counter[str] = Counter()
    found: list[TracedJob] = []
    seen: set[str] = set()
    for row in sorted(jobs, key=_order):
        reason, job = _job(row, gpus.get(row["job_name"]))
        if row["job_name"] in seen:
            reason, job = "duplicate", None
        seen.add(row["job_name"])
        if job is None:
            left_out[reason] += 1
        else:
            found.append(job)
    found.sort(key=lambda job: (job.start, job.number, job.name))
    return Trace(tuple(found), tuple(hosts), dict(left_out), dict(counts))


def _job(row: Row, gpus: Mapping[int, int] | None) -> tuple[str, TracedJob | None]:
    """Return the job, or why it is left out."""
    submitted, start, end = times_of(row)
    if start is None:
        return "never ran", None
    if end is None:
        return ("still running" if row["status"] == "Running" else "no end"), None
    if submitted is not None and start < submitted:
        return "start before submission", None
    if not 0 <= end - start <= MOST_MINUTES:
        return "end before start, or more than a year later", None
    if gpus is None:
        return "no worker", None
    total = sum(gpus.values())
    if not total:
        return "no GPU", None
    hosts = tuple(sorted((host, amount) for host, amount in gpus.items() if host >= 0 and amount))
    return "", TracedJob(
        row["job_name"],
        _number(row),
        row["model"],
        start if submitted is None else submitted,
        start,
        end,
        total,
        hosts,
    )


def _hosts(topo: Sequence[Row], workers: Sequence[Row], path: Path) -> list[TracedHost]:
    """Return all hosts, those of `topo.csv` and others, which are placed by rule.

    A job stays within a pod. So an unknown host is put in the pod of most known hosts of most of
    its workers' jobs, or in the largest pod, and there below the ToR with the fewest hosts. Ties
    go to the first by name.
    """
    known: dict[str, TracedHost] = {}
    for row in topo:
        tor = f"{row['PSW']}/{row['ASW']}"
        if not row["ip"] or row["ip"] in known:
            raise InputError(f"{row['']}: ip: expected each host once, got {row['ip']!r:.80}")
        if "/" in row["PSW"]:
            raise InputError(f"{row['']}: PSW: expected a name without /, got {row['PSW']!r:.80}")
        known[row["ip"]] = TracedHost(row["ip"], row["PSW"], tor, True)
    filled = Counter(host.tor for host in known.values())
    pods = {host.tor: host.pod for host in known.values()}
    votes = _pod_votes(known, workers)
    if votes and not filled:
        raise InputError(f"{path}: expected at least one host")
    emptiest: dict[str, list[tuple[int, str]]] = {}
    for tor, count in sorted(filled.items(), key=lambda item: (item[1], item[0])):
        emptiest.setdefault(pods[tor], []).append((count, tor))  # in order, so they are heaps
    largest = _most(Counter(host.pod for host in known.values()))
    placed = []
    for address in sorted(votes):
        pod = _most(votes[address]) or largest
        count, tor = emptiest[pod][0]
        heapq.heapreplace(emptiest[pod], (count + 1, tor))
        placed.append(TracedHost(address, pods[tor], tor, False))
    return [*(known[address] for address in sorted(known)), *placed]


def _pod_votes(known: Mapping[str, TracedHost], workers: Sequence[Row]) -> dict[str, Counter[str]]:
    """Return, for each host that `topo.csv` lacks, how many workers' jobs are in which pod."""
    pods: dict[str, Counter[str]] = {}
    for row in workers:
        if row["host_ip"] in known:
            pods.setdefault(row["job_name"], Counter())[known[row["host_ip"]].pod] += 1
    pod_of = {job: _most(own) for job, own in pods.items()}
    votes: dict[str, Counter[str]] = {}
    for row in workers:
        if row["host_ip"] and row["host_ip"] not in known:
            own = votes.setdefault(row["host_ip"], Counter())
            if row["job_name"] in pod_of:
                own[pod_of[row["job_name"]]] += 1
    return votes


def _most(votes: Mapping[str, int]) -> str:
    """Return what has most votes, the first by name among equals; empty: nothing has."""
    return min(votes, key=lambda name: (-votes[name], name), default="")


def gpus_of(row: Row) -> int | None:
    """Return the GPUs of a worker; None: its resources are missing or damaged."""
    if not row["RES"]:
        return None
    try:
        found: Any = msgspec.json.decode(row["RES"])
        text = found.get("nvidia.com/gpu", "0")
        amount = int(text) if isinstance(text, str | int) and text is not True else -1
    except (msgspec.MsgspecError, AttributeError, ValueError, RecursionError):
        return None
    return amount if 0 <= amount <= MOST_GPUS_OF_WORKER else None


def times_of(row: Row) -> tuple[int | None, int | None, int | None]:
    """Return when a job was submitted, started and ended, minutes since 1970. Raises InputError.

    It ended when it finished, else when it was stopped.
    """
    finished, stopped = _time(row, "gmt_job_finished"), _time(row, "gmt_job_stopped")
    end = stopped if finished is None else finished
    return _time(row, "gmt_job_submitted"), _time(row, "gmt_job_running"), end


def _order(row: Row) -> tuple[int, list[str]]:
    """Return a key that does not depend on the order of rows."""
    return _number(row), [row[column] for column in JOB_COLUMNS]


def _number(row: Row) -> int:
    text = row["id"].strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InputError(f"{row['']}: id: expected a whole number, got {text!r:.40}")
    return int(text)


def _time(row: Row, column: str) -> int | None:
    """Return minutes since 1970; None: empty."""
    text = row[column].strip()
    if not text:
        return None
    match = _TIME.fullmatch(text) if text.isascii() else None
    try:
        year, month, day, hour, minute = map(int, match.groups() if match else ())
        moment = datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        wanted = "expected YEAR/MONTH/DAY HOUR:MINUTE"
        raise InputError(f"{row['']}: {column}: {wanted}, got {text!r:.40}") from None
    return int(moment.timestamp()) // 60


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Yield the columns of each row, and under "" the row's place: `file:line`."""
    data = input_file.read(path, MOST_FILE_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected UTF-8 text") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        head = next(reader, [])
        missing = [column for column in columns if head.count(column) != 1]
        if missing:
            raise InputError(f"{path}:1: expected the column {missing[0]} once")
        places = {column: head.index(column) for column in columns}
        for count, row in enumerate(reader, 1):
            if not row:
                continue
            where = f"{path}:{reader.line_num}"
            if len(row) != len(head):
                raise InputError(f"{where}: expected {len(head)} columns, got {len(row)}")
            if count > MOST_ROWS:
                raise InputError(f"{path}: expected up to {MOST_ROWS} rows")
            yield {"": where, **{column: row[place] for column, place in places.items()}}
    except csv.Error as error:
        raise InputError(
            f"{path}:{reader.line_num}: expected comma-separated values: {error}"
        ) from None
