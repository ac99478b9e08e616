"""What a cgroup path says: a Slurm job, a Kubernetes pod, a systemd unit.

Slurm: `/slurm[_NODE]/uid_U/job_N/...` in v1; in v2 (22.05 and newer) below
`/system.slice/[NODE_]slurmstepd.scope` a directory `job_N`, from 26.05 on the job's SLUID,
"s" and 13 characters of base 32 (slurm.schedmd.com/cgroup_v2.html).  Kubernetes:
`kubepods` with the cgroupfs driver, `kubepods.slice` with the systemd driver, the pod's
uid in it (kubernetes: pkg/kubelet/cm).  Users can make groups below their own
`user@N.service`, so nothing below /user.slice is taken for Slurm's or Kubernetes'.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SLURM_V1 = re.compile(r"(/slurm(?:_[^/]{1,255})?/uid_([0-9]{1,10})/job_([0-9]{1,10}))(?:/|\Z)")
_SLURM_V2 = re.compile(
    r"(/system\.slice/(?:[^/]{1,200}_)?slurmstepd\.scope/(?:job_([0-9]{1,10})|(s[0-9A-HJKMNP-TV-Z]{13})))(?:/|\Z)"
)
_SLURM_ROOT = re.compile(
    r"/slurm(_[^/]{1,255})?\Z|/system\.slice/([^/]{1,200}_)?slurmstepd\.scope\Z"
)
_UID = r"([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
_POD = re.compile(
    # cgroupfs: kubepods/burstable/podUID; systemd: kubepods-burstable-podUID.slice, which
    # containerd joins to the container's name by ":" when its driver is set wrongly.
    rf"(?:kubepods(?:/(?:burstable|besteffort))?/pod{_UID}(?=/|\Z)"
    rf"|kubepods(?:-burstable|-besteffort)?-pod{_UID}\.slice(?=[/:]|\Z))"
)
_UNIT = re.compile(r"[^/]{1,255}\.(?:service|scope)\Z")
_MANAGER = re.compile(r"user@([0-9]{1,10})\.service\Z")


class SlurmPath(NamedTuple):
    """A Slurm job's cgroup."""

    name: str
    """Job number or SLUID."""
    group: str
    """The path of the job as a whole."""


class PodPath(NamedTuple):
    """A pod's cgroup."""

    uid: str
    """In the usual spelling, with dashes; static pods have a digest without."""
    group: str
    whole: bool
    """Whether `group` holds the pod and nothing else."""


class UnitPath(NamedTuple):
    """A systemd unit's cgroup."""

    name: str
    group: str
    manager: int | None
    """uid of the user whose manager it belongs to; None: the system's."""


def slurm_job(path: str) -> SlurmPath | None:
    """The Slurm job that a cgroup, v1 or v2, belongs to."""
    if found := _SLURM_V2.match(path):
        return SlurmPath(found[2] or found[3], found[1])
    if found := _SLURM_V1.match(path):
        return SlurmPath(found[3], found[1])
    return None


def is_slurm_root(path: str) -> bool:
    """Whether a cgroup is where Slurm keeps those of all jobs."""
    return _SLURM_ROOT.match(path) is not None


def pod(path: str) -> PodPath | None:
    """The Kubernetes pod that a cgroup belongs to."""
    if path.startswith("/user.slice"):
        return None
    found = _POD.search(path)
    if found is None:
        return None
    uid = (found[1] or found[2]).replace("_", "-")
    whole = path[found.end() : found.end() + 1] != ":"
    end = found.end() if whole else len(path)
    return PodPath(uid, path[:end], whole)


def unit(path: str) -> UnitPath | None:
    """The systemd unit that a cgroup belongs to: the outermost, below a user's manager if any."""
    at, manager = "", None
    for part in path.split("/")[1:]:
        at = f"{at}/{part}"
        if managed := _MANAGER.match(part):
            manager = int(managed[1])
        elif _UNIT.match(part):
            return UnitPath(part, at, manager)
    return None
