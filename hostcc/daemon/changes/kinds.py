"""Changes that the agent makes of jobs, RDMA ports and shared memory.  Pure.

Identifiers are stable: the same change has the same id in every run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from hostcc.mltcp.params import JobParams, Mode
from hostcc.model import Change

GROUP, MEMBER, SOCKETS = "job-cgroup", "job-member", "job-sockets"
FOLLOWED, REQUEST, RDMA = "job-followed", "job-request", "rdma-counters"
RDMA_PLAN, RDMA_JOB, SEMAPHORES = "rdma-plan", "rdma-job", "pcie-semaphores"
GATES = "gates"
CA, RULES, BASE, MODE = "congestion-control", "port-rules", "cgroup", "mode"

ENDS_WITH_AGENT = "ends with the agent"
ENDING = (CA, RULES, SOCKETS, MODE, FOLLOWED, RDMA_JOB, GATES)
"""Changes that cannot outlive the agent that made them."""


def base_group(path: Path) -> Change:
    """Make the directory that holds the jobs' cgroups."""
    return Change(
        id=BASE,
        what=BASE,
        target=str(path),
        before="absent",
        after="present",
        why="jobs' cgroups live here",
        undo="rmdir",
    )


def congestion_control(variant: str, name: str) -> Change:
    """Register a congestion control with the kernel."""
    return Change(
        id=f"{CA}:{variant}",
        what=CA,
        target=name,
        before="not registered",
        after="registered",
        why=f"jobs use variant {variant}",
        undo=ENDS_WITH_AGENT,
    )


def leftover(path: Path) -> Change:
    """Remove an empty cgroup that an earlier agent left behind."""
    return Change(
        id=f"{GROUP}:{path.name}",
        what=GROUP,
        target=str(path),
        before="present",
        after="absent",
        why="left behind by an earlier agent",
        undo="mkdir",
    )


def job_group(
    job: str, path: Path, kept: Mapping[str, float | int | str | None], why: str
) -> Change:
    """Make a job's cgroup.

    `kept`: what its owner asked for and, once an agent has let go of the job, what the next agent
    recognises it by.
    """
    return Change(
        id=f"{GROUP}:{job}",
        what=GROUP,
        target=str(path),
        before="absent",
        after={"job": job, **kept},
        why=why,
        undo="move its processes back where they came from, rmdir",
    )


def followed(job: str, paths: Iterable[Path], why: str) -> Change:
    """Make the sockets of cgroups that others made part of a job."""
    return Change(
        id=f"{FOLLOWED}:{job}",
        what=FOLLOWED,
        target=f"job {job}",
        before="not followed",
        after=" ".join(map(str, paths)),
        why=why,
        undo=ENDS_WITH_AGENT,
    )


def followed_groups(active: Iterable[Change]) -> dict[str, list[Path]]:
    """Job -> the cgroups of others that are part of it."""
    return {
        one.id.partition(":")[2]: [Path(path) for path in re.split(" (?=/)", str(one.after))]
        for one in active
        if one.what == FOLLOWED
    }


def job_request(job: str, kept: Mapping[str, float | int | str | None], why: str) -> Change:
    """Keep what was asked for a job without a cgroup of ours, for the next agent, too."""
    return Change(
        id=f"{REQUEST}:{job}",
        what=REQUEST,
        target=f"job {job}",
        before="as configured",
        after=kept,
        why=why,
        undo="forgotten when the job ends",
    )


def requests(active: Iterable[Change], but: Collection[str] = ()) -> list[str]:
    """Ids of what was asked for jobs; `but`: jobs whose requests are left out."""
    ids = [one.id for one in active if one.what == REQUEST]
    return [one for one in ids if one.partition(":")[2] not in but]


def job_member(job: str, pid: int, origin: str, path: Path, why: str = "hostcc run") -> Change:
    """Move a process, and so its later children, into a job's cgroup."""
    return Change(
        id=f"{MEMBER}:{job}:{pid}",
        what=MEMBER,
        target=str(pid),
        before=origin,
        after=str(path),
        why=why,
        undo="move it back",
    )


def job_sockets(params: JobParams, ca: str, default: str, why: str) -> Change:
    """Give a job's present and future sockets hostcc's congestion control."""
    after: dict[str, str | float | int | None] = {
        "congestion_control": ca,
        "mode": str(params.mode),
        "weight": params.weight,
    }
    if params.mode is Mode.STATIC:
        after["static_weight"] = params.static_weight
    return Change(
        id=f"{SOCKETS}:{params.name}",
        what=SOCKETS,
        target=f"job {params.name}",
        before=default,
        after=after,
        why=why,
        undo=f"switch them to {default}",
    )


def port_rules(rules: Mapping[tuple[int, bool], str], root: Path) -> Change:
    """Make sockets on configured ports part of jobs."""
    jobs: Iterable[str] = sorted(set(rules.values()))
    return Change(
        id=RULES,
        what=RULES,
        target=str(root),
        before="none",
        after=f"{len(rules)} port{'s' if len(rules) > 1 else ''} of {', '.join(jobs)}",
        why="[[job]] in the configuration",
        undo=ENDS_WITH_AGENT,
    )


def rdma_counters(device: str, port: int) -> Change:
    """Count an RDMA port's queue pairs by process.  It outlives the agent."""
    return Change(
        id=f"{RDMA}:{device}/{port}",
        what=RDMA,
        target=f"{device}/{port}",
        before="not bound",
        after="bound by process",
        why="bytes of jobs that bypass sockets",
        undo=f"rdma statistic qp set link {device}/{port} auto off",
    )


def port_of(change: Change) -> tuple[str, int]:
    """Device and port of an `rdma-counters` change."""
    device, _, port = change.target.rpartition("/")
    return device, int(port) if port.isdecimal() else 0


def mode(before: Mode, after: Mode, weights: Mapping[str, float], who: str) -> Change:
    """Change how jobs share (`hostcc unfair`)."""
    to: dict[str, str | float] = {"mode": str(after), **weights}
    return Change(
        id=MODE,
        what=MODE,
        target="all jobs",
        before=str(before),
        after=to,
        why=who,
        undo=f"hostcc unfair {before}",
    )


def gates(max_share: float) -> Change:
    """Let jobs that share a link send one after the other."""
    return Change(
        id=GATES,
        what=GATES,
        target="all jobs",
        before="open",
        after=f"closed while a job of the group sends, at most {max_share:g} of the time",
        why="jobs that fit beside each other need not slow each other down",
        undo="hostcc shifts off",
    )


def job_of_group(change: Change) -> str | None:
    """The job of a `job-cgroup` change; None for any other."""
    if change.what == GROUP and isinstance(change.after, Mapping):
        return str(change.after.get("job", ""))
    return None


def ended_with_agent(active: Iterable[Change]) -> list[str]:
    """Ids of those changes that cannot outlive the process that made them."""
    return [change.id for change in active if change.what in ENDING]


def members(active: Iterable[Change], job: str) -> list[Change]:
    """Those of the changes by which processes are members of a job."""
    prefix = f"{MEMBER}:{job}:"
    return [change for change in active if change.id.startswith(prefix)]


def of_group(active: Iterable[Change], job: str) -> list[str]:
    """Ids of a job's cgroup and of its members."""
    return [*(one.id for one in members(active, job)), f"{GROUP}:{job}"]


def origins(active: Iterable[Change], job: str) -> dict[int, str]:
    """Process -> the cgroup it came from, of a job's members."""
    found = members(active, job)
    return {int(one.target): str(one.before) for one in found if one.target.isdigit()}


def rdma_plan(path: Path) -> Change:
    """Make the shared memory that RDMA jobs read.  It outlives the agent; jobs see it go stale."""
    return _shared(RDMA_PLAN, path, "jobs of `hostcc run --rdma` read it")


def semaphores(path: Path) -> Change:
    """Make the shared memory in which jobs take turns."""
    return _shared(SEMAPHORES, path, "jobs take turns at PCIe links that they share")


def _shared(what: str, path: Path, why: str) -> Change:
    return Change(
        id=shared_id(what, path),
        what=what,
        target=str(path),
        before="absent",
        after="present",
        why=why,
        undo=f"rm {path}",
    )


def shared_id(what: str, path: Path) -> str:
    """Id of a change that makes shared memory."""
    return f"{what}:{path}"


def rdma_job(job: str, after: Mapping[str, str | int | None], why: str) -> Change:
    """Publish a job's entry for the RDMA shim."""
    return Change(
        id=f"{RDMA_JOB}:{job}",
        what=RDMA_JOB,
        target=f"job {job}",
        before="as the job has it",
        after=after,
        why=why,
        undo=ENDS_WITH_AGENT,
    )
