"""Checks whether changes of jobs are still in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hostcc.answers.host import LeftAlone
from hostcc.daemon.changes import kinds
from hostcc.daemon.jobs.sockets import Job
from hostcc.daemon.jobs.table import JobTable
from hostcc.mltcp.backend import MltcpBackend, Records
from hostcc.mltcp.params import Mode, Variant
from hostcc.model import Difference

TCP_ESTABLISHED = 1
FOREIGN = 2
"""HCC_FLOW_FOREIGN of bpf/intf.h: its owner or an administrator chose the control."""


def differences(table: JobTable, backend: MltcpBackend) -> list[Difference]:
    """Compare everything but connections with what the agent made."""
    found = [
        Difference(id="kernel", target="BPF", expected="attached", found=problem)
        for problem in backend.check()
    ]
    for job in table.jobs.values():
        found += _of_group(table, job)
    return found


def _of_group(table: JobTable, job: Job) -> list[Difference]:
    if job.group is None:
        return []
    identity = table.tree.identity(job.group)
    if identity == job.group_id:
        return []
    return [
        Difference(
            id=f"{kinds.GROUP}:{job.name}",
            target=str(job.group),
            expected="present",
            found="another cgroup of that name" if identity else "absent",
        )
    ]


def of_flows(rows: Records, jobs: Mapping[int, Job], names: Mapping[str, str]) -> list[Difference]:
    """Find established connections that run another control than the agent chose."""
    found = []
    for (slot, control), count in _tally(rows[(rows["managed"] & FOREIGN) == 0], jobs).items():
        params = jobs[slot].params
        off = params is None or params.mode is Mode.OFF
        expected = "" if params is None else names[params.variant]
        allowed = {expected}
        if params is not None and params.variant is Variant.DCTCP:
            allowed.add(names.get(Variant.RENO, expected))  # where the peer has refused ECN
        wrong = control in names.values() if off else control not in allowed
        if wrong:
            found.append(
                Difference(
                    id=f"{kinds.SOCKETS}:{jobs[slot].name}",
                    target=f"job {jobs[slot].name}",
                    expected="the host's default" if off else expected,
                    found=f"{control} on {count} connections",
                )
            )
    return found


def left_alone(rows: Records, jobs: Mapping[int, Job]) -> list[LeftAlone]:
    """Count connections whose congestion control somebody else has chosen; not a difference."""
    foreign = _tally(rows[(rows["managed"] & FOREIGN) != 0], jobs)
    return [
        LeftAlone(jobs[slot].name, control, count) for (slot, control), count in foreign.items()
    ]


def _tally(rows: Records, jobs: Mapping[int, Job]) -> dict[tuple[int, str], int]:
    """(Slot, congestion control) -> how many established connections."""
    established = rows[rows["state"] == TCP_ESTABLISHED]
    count = Counter(
        (int(row["slot"]), bytes(row["ca_name"]).decode(errors="replace"))
        for row in established
        if int(row["slot"]) in jobs
    )
    return dict(sorted(count.items()))
