"""Discovery of jobs that were not started with `hostcc run`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hostcc.config.sections.words import Glob, JobName
from hostcc.limits import JOB_NAME, JOB_NAME_WORDS
from hostcc.system.processes import Pods, ProcessRule, Rules, UnitRule


class UnitConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[discover.unit]]`: systemd units that are jobs."""

    unit: Glob
    job: Annotated[
        str, Meta(pattern=f"^$|{JOB_NAME}", description=f"{JOB_NAME_WORDS}, or nothing")
    ] = ""
    """The job's name; empty: `unit:NAME`."""
    user: bool = False
    """Whether units of users' own managers count; any user can name these freely."""


class ProcessConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[discover.process]]`: plain processes that form a job."""

    job: JobName
    command: Glob
    """Glob over the command line, arguments separated by spaces."""
    uid: Annotated[int, Meta(ge=0, le=2**32 - 2)] | None = None
    """Owner of the processes; absent: anybody's, so that anybody can join the job."""


class DiscoverConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[discover]`: discovery of jobs that were not started with `hostcc run`."""

    enabled: bool = True
    every_s: Annotated[float, Meta(ge=1, le=3600)] = 10.0
    """Seconds between passes; longer if a pass takes more than a 100th of that."""
    manage: bool = True
    """Whether found jobs are managed like others; otherwise they are only measured."""
    move: Literal["auto", "never"] = "auto"
    """Whether processes without a cgroup of their own are moved into one for their job. auto: only
    where cgroup v2 sets no limits, so that they lose none."""
    slurm: bool = True
    slurm_cluster: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9._-]{0,32}\Z", description="at most 32 of A-Z a-z 0-9 . _ -"),
    ] = ""
    """Included in the names of Slurm jobs, for networks that several Slurm clusters share."""
    kubernetes: Pods = Pods.TRAINING
    """Which pods are jobs; training: those with a process that has RANK and MASTER_ADDR."""
    environ: bool = True
    """Whether environment variables may name jobs when nothing better does."""
    unit: Annotated[tuple[UnitConfig, ...], Meta(max_length=256)] = ()
    process: Annotated[tuple[ProcessConfig, ...], Meta(max_length=256)] = ()

    @property
    def rules(self) -> Rules:
        """The rules of discovery."""
        return Rules(
            slurm=self.slurm,
            slurm_cluster=self.slurm_cluster,
            kubernetes=self.kubernetes,
            environ=self.environ,
            units=tuple(UnitRule(one.unit, one.job, one.user) for one in self.unit),
            processes=tuple(ProcessRule(one.job, one.command, one.uid) for one in self.process),
        )
