"""Values of discovery: processes and groups, rules, and the jobs that were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from hostcc.system.quota import Owner

ENVIRON = (
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "HOSTNAME",
    "HOSTCC_WEIGHT",
    "HOSTCC_FLOPS",
)
"""Variables of an environment that discovery reads; it keeps nothing else."""
MAX_VALUE = 256
"""Characters of a variable's value; a longer one counts as absent."""
MAX_SAID = 4
"""Values of one variable that are kept of a job."""
MAX_CMDLINE = 4096
"""Characters of a command line that rules see."""
ROOT_UID = 0
WEIGHT, FLOPS = "HOSTCC_WEIGHT", "HOSTCC_FLOPS"
"""Variables by which processes of a found job say what they ask for it."""


class Kind(StrEnum):
    """How a job was found."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    UNIT = "unit"
    PROCESS = "process"
    RENDEZVOUS = "rendezvous"


class Pods(StrEnum):
    """Which Kubernetes pods count as jobs."""

    OFF = "off"
    TRAINING = "training"
    """Those with a process that has RANK and MASTER_ADDR."""
    ALL = "all"


class ProcessRef(NamedTuple):
    """A process, told apart from a later one with the same number."""

    pid: int
    started: int
    """Clock ticks since boot (/proc/PID/stat, field 22)."""


@dataclass(frozen=True)
class Process:
    """One entry of the process table.  All text is the process's own and not to be trusted."""

    pid: int
    parent: int = 1
    started: int = 0
    uid: int = 0
    """Real user id, as the host sees it."""
    comm: str = ""
    cmdline: str = ""
    """Arguments, separated by spaces; at most MAX_CMDLINE characters."""
    group: str = ""
    """cgroup v2 path, like "/system.slice/a.service"; empty without v2."""
    v1_groups: tuple[str, ...] = ()
    """The different v1 paths."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables of ENVIRON that it started with."""

    @property
    def ref(self) -> ProcessRef:
        """Its number and start time."""
        return ProcessRef(self.pid, self.started)


class Said(NamedTuple):
    """What one process of a job says of it by its environment; not to be trusted."""

    variable: str
    """WEIGHT or FLOPS."""
    text: str
    uid: int
    pid: int


@dataclass(frozen=True)
class Snapshot:
    """One host at one time."""

    host: str
    """Its name, different on every host."""
    processes: tuple[Process, ...] = ()
    groups: frozenset[str] = frozenset()
    """cgroups near the top of the v2 tree and of the v1 trees, like "/slurm"."""
    complete: bool = True
    """False when a bound cut it short."""


@dataclass(frozen=True)
class UnitRule:
    """systemd units that are jobs."""

    unit: str
    """Glob over the unit's name, like "train@*.service"."""
    job: str = ""
    """The job's id; empty: `unit:NAME`."""
    user: bool = False
    """Whether units of users' own managers count, which any user can name as they like."""


@dataclass(frozen=True)
class ProcessRule:
    """Plain processes that are a job."""

    job: str
    """The job's id."""
    command: str
    """Glob over the command line, like "*python* train.py*"."""
    uid: int | None = None
    """User of the processes; None: anybody, so anybody can join."""


@dataclass(frozen=True)
class Rules:
    """Which kinds of jobs discovery looks for."""

    slurm: bool = True
    slurm_cluster: str = ""
    """Prefix for the ids of Slurm jobs, where several Slurm clusters share a network."""
    kubernetes: Pods = Pods.TRAINING
    environ: bool = True
    """Whether environments may name jobs (the fall-back)."""
    units: tuple[UnitRule, ...] = ()
    processes: tuple[ProcessRule, ...] = ()


@dataclass(frozen=True)
class FoundJob:
    """A job, or the part of it on this host."""

    id: str
    """The same on every host that runs a part of it; a valid job name."""
    kind: Kind
    groups: tuple[str, ...] = ()
    """cgroup v2 paths that hold processes of this job only."""
    v1_groups: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    loose: tuple[ProcessRef, ...] = ()
    """Its processes that are in none of `groups`."""
    evidence: tuple[str, ...] = ()
    """Why it was taken for a job, in words."""
    owner: Owner = None
    """User in whose quota it counts; None: root, whose rule names it."""
    said: tuple[Said, ...] = ()
    """What its processes say of it, of each variable root's first; at most MAX_SAID."""
