"""What the control socket shows of jobs and changes, out of what the agent knows."""

from __future__ import annotations

import ipaddress
import resource
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.answers.flows import FlowRow, Flows
from hostcc.answers.host import Changes, LeftAlone, Undone, Verification
from hostcc.answers.jobs import JobRow, Parameters
from hostcc.answers.status import JobSlots, JobStatus, Note, Recent
from hostcc.config.schema import Config
from hostcc.config.sections.job import JobConfig
from hostcc.daemon.changes.journal import Journal, row_of
from hostcc.daemon.jobs.slots import Slots
from hostcc.daemon.jobs.sockets import Job
from hostcc.daemon.jobs.table import JobTable
from hostcc.daemon.jobs.verification import FOREIGN
from hostcc.mltcp.backend import MltcpBackend, Records
from hostcc.mltcp.params import JobParams, Mode
from hostcc.model import Difference

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
    "it pauses within its iterations",
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


def job_status(table: JobTable, backend: MltcpBackend) -> list[JobStatus]:
    """One row per job, without its iterations of late."""
    states = backend.job_states()
    return [
        _status_of(table, job, job.params, backend.ca_names, states[job.slot])
        for job in sorted(table.jobs.values(), key=lambda job: job.name)
        if job.params is not None
    ]


def _status_of(
    table: JobTable, job: Job, params: JobParams, names: Mapping[str, str], state: Any
) -> JobStatus:
    stance, direction = STANCES[int(state["stance"])], DIRECTIONS[int(state["direction"])]
    off = params.mode is Mode.OFF
    return JobStatus(
        name=job.name,
        mode=str(params.mode),
        variant=str(params.variant),
        congestion_control=None if off else names[params.variant],
        weight=table.weight_of(job),
        static_weight=params.static_weight if params.mode is Mode.STATIC else None,
        profiling=table.preference.first == job.name,
        processes=sum(len(table.tree.pids(group)) for group in job.groups),
        # Our congestion control counts them, and runs nowhere in mode off.
        flows=None if off else int(state["flows"]),
        bytes_acked=None if off else int(state["bytes_acked"]),
        iterations=int(state["iterations"]),
        bytes_per_iteration=int(state["total_bytes"]) or None,
        period_s=_seconds(state["period_ns"]),
        communication_s=_seconds(state["comm_ns"]),
        best_communication_s=_seconds(state["best_comm_ns"]),
        yielded_s=float(state["yield_ns"]) / 1e9,
        stance=stance,
        direction=direction,
        plain_reason=plain_reason(params, stance, int(state["plain"])),
        recent=Recent(0, 0, None, None),
        iterations_by_bytes=None,
    )


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


def job_details(table: JobTable) -> list[JobRow]:
    """One row per job: what it was given and how its sockets are found."""
    return [
        JobRow(
            name=job.name,
            slot=job.slot,
            cgroup=str(job.groups[0]) if job.groups else None,
            pids=sorted(pid for group in job.groups for pid in table.tree.pids(group)),
            **rule_ports(table.config.job_named(job.name)),
            parameters=parameters(job.params) if job.params else None,
        )
        for job in sorted(table.jobs.values(), key=lambda job: job.name)
    ]


def configured_jobs(config: Config) -> list[JobRow]:
    """The jobs of the configuration, for an agent that only observes."""
    return [
        JobRow(name=job.name, slot=None, cgroup=None, pids=[], **rule_ports(job), parameters=None)
        for job in config.job
    ]


def rule_ports(job: JobConfig | None) -> dict[str, Any]:
    """The port rules of a job as they are configured."""
    return {
        "local_ports": list(job.local_ports) if job else [],
        "remote_ports": list(job.remote_ports) if job else [],
    }


def parameters(params: JobParams) -> Parameters:
    """A job's congestion-control parameters."""
    shape = params.shape
    return Parameters(
        variant=str(params.variant),
        mode=str(params.mode),
        ratio_scope=str(params.scope),
        shape=str(shape.kind),
        slope=shape.slope,
        intercept=shape.intercept,
        table=list(shape.table),
        weight=params.weight,
        static_weight=params.static_weight,
        bytes_per_iteration=params.bytes_per_iteration,
        silence_us=params.silence_us,
        delay_target_min_us=params.target_min_us,
        delay_target_max_us=params.target_max_us,
        plain_weight=params.plain_weight,
    )


def flows(
    rows: Records, jobs: Mapping[int, Job], names: Mapping[str, str], only: str | None, limit: int
) -> Flows:
    """Connections of jobs: the first `limit`, and how many there are."""
    slots = [slot for slot, job in jobs.items() if only in (None, job.name)]
    mine = rows[np.isin(rows["slot"], slots) & (rows["state"] != LISTEN)]
    ours = {name.encode() for name in names.values()}
    shown = [_flow(row, jobs[int(row["slot"])].name, ours) for row in mine[:limit]]
    return Flows(total=len(mine), flows=shown)


def _flow(row: Any, job: str, ours: set[bytes]) -> FlowRow:
    family, state = int(row["family"]), int(row["state"])
    pacing, least = int(row["pacing_bps"]), int(row["min_rtt_us"])
    return FlowRow(
        job=job,
        local=endpoint(family, bytes(row["laddr"]), int(row["lport"])),
        remote=endpoint(family, bytes(row["raddr"]), int(row["rport"])),
        state=TCP_STATES[state] if state < len(TCP_STATES) else str(state),
        congestion_control=bytes(row["ca_name"]).decode(errors="replace"),
        ours=bytes(row["ca_name"]) in ours,
        left_alone=bool(int(row["managed"]) & FOREIGN),
        cwnd_packets=int(row["cwnd"]),
        ssthresh_packets=int(row["ssthresh"]),
        srtt_us=int(row["srtt_us"]) or None,
        min_rtt_us=None if least == UNMEASURED else least,
        mss_bytes=int(row["mss_bytes"]),
        retransmitted_packets=int(row["retrans"]),
        bytes_acked=int(row["bytes_acked"]),
        pacing_bytes_per_s=None if pacing >= UNLIMITED else pacing,
        cgroup_id=int(row["cgroup_id"]),
    )


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
) -> Undone:
    """What was undone, what could not be, what of the former the journal does not say, and what
    went with its network namespace."""
    return Undone(undone=undone, gone=list(gone), problems=problems, unrecorded=dict(unrecorded))


def journal(book: Journal, limit: int) -> Changes:
    """Changes in force, and the latest entries of the journal."""
    in_force = [row_of(one) for one in book.in_force()]
    return Changes(in_force=in_force, latest=book.tail(limit))


def slots(taken: Slots) -> JobSlots:
    """How many job slots there are, and who may have how many."""
    held, quota = taken.held, taken.quota
    return JobSlots(
        total=quota.total,
        used=sum(held.values()),
        root=held.get(None, 0),
        per_uid=quota.per_uid,
        for_root=quota.for_root,
    )


def notes(book: Journal) -> tuple[Note, ...]:
    """The latest notes: what was seen and left alone."""
    return tuple(Note(n.at, n.target, n.text) for n in book.notes[-10:])


def own_usage() -> tuple[float, int]:
    """What this process has used: CPU seconds, resident bytes."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return usage.ru_utime + usage.ru_stime, pages * resource.getpagesize()


def verification(
    checked: int, found: Sequence[Difference], others: Sequence[LeftAlone], reason: str = ""
) -> Verification:
    """The outcome of `verify`."""
    return Verification(
        checked=checked,
        observing=reason or None,
        differences=tuple(found),
        left_alone=tuple(others),
    )


def _seconds(nanoseconds: Any) -> float | None:
    return float(nanoseconds) / 1e9 if int(nanoseconds) else None
