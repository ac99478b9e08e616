"""What the control socket shows, as plain data; docs/control.md documents each schema."""

from __future__ import annotations

import ipaddress
import resource
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.config.schema import Config
from hostcc.config.sections.job import JobConfig
from hostcc.daemon.changes.journal import Journal, change_json
from hostcc.daemon.jobs.slots import Slots
from hostcc.daemon.jobs.sockets import Job
from hostcc.daemon.jobs.table import JobTable
from hostcc.daemon.jobs.verification import FOREIGN, LeftAlone
from hostcc.mltcp.backend import MltcpBackend, Records
from hostcc.mltcp.params import JobParams, Mode
from hostcc.model import Difference

STATUS, JOBS, FLOWS = "hostcc.status/1", "hostcc.jobs/1", "hostcc.flows/1"
PROFILE, PEERS = "hostcc.profile/1", "hostcc.peers/1"
PLAN, EXPLANATION = "hostcc.plan/1", "hostcc.explanation/1"
CHANGES, VERIFY = "hostcc.changes/1", "hostcc.verify/1"
REGISTER, UNFAIR, ROLLBACK = "hostcc.register/1", "hostcc.unfair/1", "hostcc.rollback/1"

STANCES = ("learning", "scaled", "plain")
"""enum hcc_stance in words."""
DIRECTIONS = ("unknown", "one-way", "two-way")
"""enum hcc_direction in words."""
PLAIN_REASONS = (
    None,
    "no iterations alike yet",
    "it hardly pauses between iterations",
    "holding back did not pay; tried again later",
    "a competitor does not yield; tried again later",
    "it receives while it sends",
    "what it receives over links is not counted",
    "its iterations are below 64 KiB",
    "more was sent than an iteration has",
    "its communication phases have fewer than 24 round trips",
    "all windows of this host are taken",
)
"""enum hcc_plain in words."""
TCP_STATES = (
    "-",
    "established",
    "syn-sent",
    "syn-recv",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "close",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
    "new-syn-recv",
)
LISTEN = TCP_STATES.index("listen")
UNLIMITED = 2**64 - 1
UNMEASURED = 2**32 - 1


def job_status(table: JobTable, backend: MltcpBackend) -> list[dict[str, Any]]:
    """One row per job: how it fares."""
    states = backend.job_states()
    return [
        _status_of(table, job, job.params, backend.ca_names, states[job.slot])
        for job in sorted(table.jobs.values(), key=lambda job: job.name)
        if job.params is not None
    ]


def _status_of(
    table: JobTable, job: Job, params: JobParams, names: Mapping[str, str], state: Any
) -> dict[str, Any]:
    stance, direction = STANCES[int(state["stance"])], DIRECTIONS[int(state["direction"])]
    off = params.mode is Mode.OFF
    return {
        "name": job.name,
        "mode": str(params.mode),
        "variant": str(params.variant),
        "congestion_control": None if off else names[params.variant],
        "weight": table.weight_of(job),
        "static_weight": params.static_weight if params.mode is Mode.STATIC else None,
        "profiling": table.favour.first == job.name,
        "processes": sum(len(table.tree.pids(group)) for group in job.groups),
        # Our congestion control counts them, and runs nowhere in mode off.
        "flows": None if off else int(state["flows"]),
        "bytes_acked": None if off else int(state["bytes_acked"]),
        "iterations": int(state["iterations"]),
        "bytes_per_iteration": int(state["total_bytes"]) or None,
        "period_s": _seconds(state["period_ns"]),
        "communication_s": _seconds(state["comm_ns"]),
        "best_communication_s": _seconds(state["best_comm_ns"]),
        "yielded_s": float(state["yield_ns"]) / 1e9,
        "stance": stance,
        "direction": direction,
        "plain_reason": plain_reason(params, stance, int(state["plain"])),
    }


def plain_reason(params: JobParams, stance: str, plain: int) -> str | None:
    """Why a job's sockets run the plain algorithm now; None when they do not.

    `plain`: enum hcc_plain, which is written with the first acknowledgement.
    """
    if params.mode is Mode.OFF:
        return "mode off"
    if params.mode is Mode.STATIC:
        return None
    if not plain and stance == "learning":
        return PLAIN_REASONS[1]
    return PLAIN_REASONS[plain]


def job_details(table: JobTable) -> list[dict[str, Any]]:
    """One row per job: what it was given and how its sockets are found."""
    return [
        {
            "name": job.name,
            "slot": job.slot,
            "cgroup": str(job.groups[0]) if job.groups else None,
            "pids": sorted(pid for group in job.groups for pid in table.tree.pids(group)),
            **rule_ports(table.config.job_named(job.name)),
            "parameters": parameters(job.params) if job.params else None,
        }
        for job in sorted(table.jobs.values(), key=lambda job: job.name)
    ]


def configured_jobs(config: Config) -> list[dict[str, Any]]:
    """The jobs of the configuration, for an agent that only observes."""
    return [
        {
            "name": job.name,
            "slot": None,
            "cgroup": None,
            "pids": [],
            **rule_ports(job),
            "parameters": None,
        }
        for job in config.job
    ]


def rule_ports(job: JobConfig | None) -> dict[str, list[int | str]]:
    """The port rules of a job as they are configured."""
    return {
        "local_ports": list(job.local_ports) if job else [],
        "remote_ports": list(job.remote_ports) if job else [],
    }


def parameters(params: JobParams) -> dict[str, Any]:
    """A job's congestion-control parameters."""
    shape = params.shape
    return {
        "variant": str(params.variant),
        "mode": str(params.mode),
        "ratio_scope": str(params.scope),
        "shape": str(shape.kind),
        "slope": shape.slope,
        "intercept": shape.intercept,
        "table": list(shape.table),
        "weight": params.weight,
        "static_weight": params.static_weight,
        "bytes_per_iteration": params.bytes_per_iteration,
        "silence_us": params.silence_us,
        "delay_target_min_us": params.target_min_us,
        "delay_target_max_us": params.target_max_us,
        "plain_weight": params.plain_weight,
    }


def flows(
    rows: Records, jobs: Mapping[int, Job], names: Mapping[str, str], only: str | None, limit: int
) -> dict[str, Any]:
    """Connections of jobs: the first `limit`, and how many there are."""
    slots = [slot for slot, job in jobs.items() if only in (None, job.name)]
    mine = rows[np.isin(rows["slot"], slots) & (rows["state"] != LISTEN)]
    ours = {name.encode() for name in names.values()}
    return {
        "schema": FLOWS,
        "total": len(mine),
        "flows": [_flow(row, jobs[int(row["slot"])].name, ours) for row in mine[:limit]],
    }


def _flow(row: Any, job: str, ours: set[bytes]) -> dict[str, Any]:
    family, state = int(row["family"]), int(row["state"])
    pacing, least = int(row["pacing_bps"]), int(row["min_rtt_us"])
    return {
        "job": job,
        "local": endpoint(family, bytes(row["laddr"]), int(row["lport"])),
        "remote": endpoint(family, bytes(row["raddr"]), int(row["rport"])),
        "state": TCP_STATES[state] if state < len(TCP_STATES) else str(state),
        "congestion_control": bytes(row["ca_name"]).decode(errors="replace"),
        "ours": bytes(row["ca_name"]) in ours,
        "left_alone": bool(int(row["managed"]) & FOREIGN),
        "cwnd_packets": int(row["cwnd"]),
        "ssthresh_packets": int(row["ssthresh"]),
        "srtt_us": int(row["srtt_us"]) or None,
        "min_rtt_us": None if least == UNMEASURED else least,
        "mss_bytes": int(row["mss_bytes"]),
        "retransmitted_packets": int(row["retrans"]),
        "bytes_acked": int(row["bytes_acked"]),
        "pacing_bytes_per_s": None if pacing >= UNLIMITED else pacing,
        "cgroup_id": int(row["cgroup_id"]),
    }


def endpoint(family: int, raw: bytes, port: int) -> str:
    """ADDRESS:PORT, an IPv4 address carried in IPv6 as IPv4."""
    if family == socket.AF_INET:
        return f"{ipaddress.IPv4Address(raw[:4])}:{port}"
    address = ipaddress.IPv6Address(raw)
    return f"{address.ipv4_mapped or f'[{address}]'}:{port}"


def rollback(
    undone: list[str],
    problems: list[str],
    unrecorded: Mapping[str, str],
    gone: Sequence[str] = (),
) -> dict[str, Any]:
    """What was undone, what could not be, what of the former the journal does not say, and what
    went with its network namespace."""
    return {
        "schema": ROLLBACK,
        "undone": undone,
        "gone": list(gone),
        "problems": problems,
        "unrecorded": dict(unrecorded),
    }


def journal(book: Journal, limit: int) -> dict[str, Any]:
    """Changes in force, and the latest entries of the journal."""
    return {
        "schema": CHANGES,
        "in_force": [change_json(one) for one in book.in_force()],
        "latest": book.tail(limit),
    }


def registration(
    job: str, group: Path, joined: bool, marks: str, rdma: Mapping[str, str]
) -> dict[str, Any]:
    """Where a command of a job belongs, where it may send marks, what its RDMA needs."""
    answer = {"schema": REGISTER, "job": job, "cgroup": str(group), "joined": joined}
    return {**answer, "marks": marks or None, "rdma": dict(rdma)}


def slots(taken: Slots) -> dict[str, int]:
    """How many job slots there are, and who may have how many."""
    held, quota = taken.held, taken.quota
    return {
        "total": quota.total,
        "used": sum(held.values()),
        "root": held.get(None, 0),
        "per_uid": quota.per_uid,
        "for_root": quota.for_root,
    }


def notes(book: Journal) -> list[dict[str, Any]]:
    """The latest notes: what was seen and left alone."""
    return [{"at": n.at, "target": n.target, "text": n.text} for n in book.notes[-10:]]


def own_usage() -> dict[str, float]:
    """What this process has used: CPU seconds, resident bytes."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "resident_bytes": pages * resource.getpagesize(),
    }


def verification(
    checked: int, found: Sequence[Difference], others: Sequence[LeftAlone], reason: str = ""
) -> dict[str, Any]:
    """The outcome of `verify`."""
    return {
        "schema": VERIFY,
        "checked": checked,
        "observing": reason or None,
        "differences": [
            {"id": d.id, "target": d.target, "expected": d.expected, "found": d.found}
            for d in found
        ],
        "left_alone": [
            {
                "job": other.job,
                "congestion_control": other.congestion_control,
                "connections": other.connections,
            }
            for other in others
        ],
    }


def _seconds(nanoseconds: Any) -> float | None:
    return float(nanoseconds) / 1e9 if int(nanoseconds) else None
