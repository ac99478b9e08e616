"""The agent's configuration: every knob, its type, bounds, default and unit.

The types are the documentation; docs/config.md is the same for operators.
Reading files is in configfile.py.  Nothing here has side effects.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hostcc.coord.names import MEMBER_NAME, MEMBER_NAME_WORDS
from hostcc.limits import (
    BYTES_PER_ITERATION_MAX,
    F_POINTS,
    FLOP_MAX,
    JOB_NAME,
    JOB_NAME_WORDS,
    MAX_JOBS,
    WEIGHT_MAX,
    WEIGHT_MIN,
)
from hostcc.measure.discover.types import Pods, ProcessRule, Rules, UnitRule
from hostcc.mltcp.params import JobParams, Mode, Scope, Shape, ShapeKind, Variant

DEFAULT_PATH = Path("/etc/hostcc/hostcc.toml")

JobName = Annotated[str, Meta(pattern=JOB_NAME, description=JOB_NAME_WORDS)]
Weight = Annotated[float, Meta(ge=WEIGHT_MIN, le=WEIGHT_MAX)]
Bytes = Annotated[int, Meta(ge=1, le=BYTES_PER_ITERATION_MAX)]
Flop = Annotated[float, Meta(ge=1, le=FLOP_MAX)]
Glob = Annotated[str, Meta(min_length=1, max_length=256)]
Micros = Annotated[int, Meta(ge=10, le=1_000_000)]
Silence = Annotated[int, Meta(ge=0, le=60_000_000)]
Slope = Annotated[float, Meta(ge=-100, le=100)]
Factor = Annotated[float, Meta(ge=WEIGHT_MIN, le=WEIGHT_MAX)]
FTable = Annotated[tuple[Factor, ...], Meta(max_length=F_POINTS)]
AbsolutePath = Annotated[str, Meta(pattern=r"^/[^\x00]{0,4000}\Z", description="an absolute path")]
PortOrRange = (
    Annotated[int, Meta(ge=1, le=65535, description="a port from 1 to 65535")]
    | Annotated[
        str,
        Meta(pattern=r"^[0-9]{1,5}-[0-9]{1,5}\Z", description='a range of ports like "5000-5010"'),
    ]
)
Endpoint = Annotated[str, Meta(max_length=300)]
Ports = Annotated[tuple[PortOrRange, ...], Meta(max_length=1024)]


class AgentConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[agent]`: how the daemon runs."""

    instance: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._-]{1,32}\Z",
            description="1 to 32 characters of A-Z a-z 0-9 . _ -",
        ),
    ] = "host"
    """Tells agents on one machine apart (lab hosts); part of the kernel names."""
    run_dir: AbsolutePath = "/run/hostcc"
    """Journal, lock and control socket live here."""
    socket: Annotated[
        str, Meta(pattern=r"^(/[^\x00]{0,106})?\Z", description="an absolute path")
    ] = ""
    """Control socket; empty: `control.sock` in run_dir.  At most 107 bytes (sockaddr_un)."""
    socket_group: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9._-]{0,32}\Z", description="a group's name or nothing")
    ] = "hostcc"
    """Members may read (status, flows ...); changing always needs root.  Empty: root only."""
    cgroup_root: Annotated[
        str,
        Meta(pattern=r"^(auto|/[^\x00]{0,4000})\Z", description='"auto" or an absolute path'),
    ] = "auto"
    """cgroup v2 directory; jobs get `<cgroup_root>/hostcc/<name>`.  auto: the cgroup2 mount."""
    heartbeat_s: Annotated[float, Meta(ge=0.1, le=60)] = 0.5
    """Seconds between signs of life to the BPF programs."""
    heartbeat_stale_s: Annotated[float, Meta(ge=0.2, le=300)] = 1.5
    """Without a sign of life for so many seconds, sockets act as the plain algorithm."""
    on_exit: Literal["restore", "keep"] = "restore"
    """restore: undo every change on SIGTERM.  keep: leave jobs' cgroups for the next agent."""
    observe_only: bool = False
    """Change nothing on this host, answer questions only."""
    network_namespaces: Literal["all", "own"] = "all"
    """Where to look for sockets that exist already."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    metrics_listen: Annotated[
        str,
        Meta(
            pattern=r"^((\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5})?\Z",
            description='"ADDRESS:PORT" or nothing',
        ),
    ] = ""
    """Prometheus metrics are served here; empty: not at all."""


class MltcpConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[mltcp]`: the congestion control of every job, unless the job says otherwise.

    F(r), r the share of the iteration's bytes that were sent: slope * r + intercept
    (Rajasekaran, MIT thesis 2025, section 5: 1.75 and 0.25).
    """

    mode: Mode = Mode.MLTCP
    variant: Variant = Variant.HOSTCC
    ratio_scope: Scope = Scope.JOB
    shape: ShapeKind = ShapeKind.LINEAR
    slope: Slope = 1.75
    intercept: Factor = 0.25
    table: FTable = ()
    """F at even steps of r from 0 to 1, for shape = "table"."""
    delay_target_min_us: Micros = 300
    """Queueing delay above which a job at the start of its iteration steps back."""
    delay_target_max_us: Micros = 1400
    """The same for a job about to finish."""
    silence_us: Silence = 0
    """Silence that ends an iteration; 0: learned."""


class MeasureConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[measure]`: what is learned of each job's traffic."""

    enabled: bool = True
    """Whether jobs' bytes are counted and their iterations found."""
    jobs_max: Annotated[int, Meta(ge=1, le=256)] = 32
    """Jobs that are profiled at a time; each takes up to 0.8 MB of memory."""
    profiling_max_s: Annotated[float, Meta(ge=0, le=600)] = 30.0
    """Seconds that a new job goes first, beside others here, until it is known; 0: never."""


class UnitConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[discover.unit]]`: systemd units that are jobs."""

    unit: Glob
    job: Annotated[
        str, Meta(pattern=f"^$|{JOB_NAME}", description=f"{JOB_NAME_WORDS}, or nothing")
    ] = ""
    """The job's name; empty: `unit:NAME`."""
    user: bool = False
    """Whether units of users' own managers count, which any user can name as they like."""


class ProcessConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[discover.process]]`: plain processes that are a job."""

    job: JobName
    command: Glob
    """Glob over the command line, arguments separated by spaces."""
    uid: Annotated[int, Meta(ge=0, le=2**32 - 2)] | None = None
    """Whose processes; absent: anybody's, so anybody can join."""


class DiscoverConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[discover]`: jobs that nobody started with `hostcc run`."""

    enabled: bool = True
    every_s: Annotated[float, Meta(ge=1, le=3600)] = 10.0
    """Seconds between looks; more where a look takes long (a 500th of the time at most)."""
    manage: bool = True
    """Whether found jobs are managed like others; else they are only measured."""
    move: Literal["auto", "never"] = "auto"
    """Whether processes without a cgroup of their own are moved into one for their job.  auto:
    where cgroup v2 limits nothing, so that they lose no limit."""
    slurm: bool = True
    slurm_cluster: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9._-]{0,32}\Z", description="at most 32 of A-Z a-z 0-9 . _ -"),
    ] = ""
    """Part of Slurm jobs' names; for networks that several Slurm clusters share."""
    kubernetes: Pods = Pods.TRAINING
    """Which pods are jobs; training: those with a process that has RANK and MASTER_ADDR."""
    environ: bool = True
    """Whether environments may name jobs, where nothing better does."""
    unit: Annotated[tuple[UnitConfig, ...], Meta(max_length=256)] = ()
    process: Annotated[tuple[ProcessConfig, ...], Meta(max_length=256)] = ()

    @property
    def rules(self) -> Rules:
        """What to look for."""
        return Rules(
            slurm=self.slurm,
            slurm_cluster=self.slurm_cluster,
            kubernetes=self.kubernetes,
            environ=self.environ,
            units=tuple(UnitRule(one.unit, one.job, one.user) for one in self.unit),
            processes=tuple(ProcessRule(one.job, one.command, one.uid) for one in self.process),
        )


class GpuConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[gpu]`: work on NVIDIA GPUs."""

    enabled: bool = True
    """false also lets go of the driver, so that it can be unloaded or MIG mode changed."""
    interval_s: Annotated[float, Meta(ge=0.1, le=10)] = 0.1
    """Seconds between looks at the GPUs."""


class MarksConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[marks]`: iteration boundaries that jobs tell of their own accord."""

    enabled: bool = True
    socket: Annotated[
        str, Meta(pattern=r"^([/@][^\x00]{1,106})?\Z", description="an absolute path or @NAME")
    ] = ""
    """Where marks arrive; empty: `marks.sock` in run_dir."""


class GossipConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[gossip]`: what agents tell each other.  Addresses are checked in configfile.py."""

    enabled: bool = False
    """Whether this host takes part; if not, nothing listens."""
    name: Annotated[
        str,
        Meta(pattern=f"^$|{MEMBER_NAME}", description=f"{MEMBER_NAME_WORDS}, or nothing"),
    ] = ""
    """Among the members; empty: `instance` if it is set, else the host name."""
    listen: Endpoint = ""
    """Empty: port 7471 of all IPv4 addresses, without keys of loopback only."""
    keys: Annotated[
        str, Meta(pattern=r"^(/[^\x00]{0,4000})?\Z", description="an absolute path or nothing")
    ] = "/etc/hostcc/keys"
    """Directory of `hostcc keys`; empty, or no host.key in it: without keys."""
    insecure: bool = False
    """Without keys, listen where others can reach it: for networks trusted as a whole."""
    seeds: Annotated[tuple[Annotated[str, Meta(max_length=400)], ...], Meta(max_length=64)] = ()
    """NAME@HOST:PORT of members to begin with; the others are learned."""
    advertise: Endpoint = ""
    """Where the others reach this host; empty: worked out from `listen`."""


class JobConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[job]]`: one job's wishes, and how to find its sockets if `hostcc run` did not start it."""

    name: JobName
    weight: Weight = 1.0
    """Multiplies F; in static mode it is F unless `unfair static` says otherwise."""
    bytes_per_iteration: Bytes | None = None
    """Bytes that this host sends in one iteration; absent: learned."""
    flops: Flop | None = None
    """FLOP of one iteration on this host's GPUs; absent: measured."""
    local_ports: Ports = ()
    remote_ports: Ports = ()
    variant: Variant | None = None
    ratio_scope: Scope | None = None
    shape: ShapeKind | None = None
    slope: Slope | None = None
    intercept: Factor | None = None
    table: FTable | None = None
    delay_target_min_us: Micros | None = None
    delay_target_max_us: Micros | None = None
    silence_us: Silence | None = None

    @property
    def has_rule(self) -> bool:
        """Whether ports say which sockets are this job's."""
        return bool(self.local_ports or self.remote_ports)


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One whole configuration."""

    agent: AgentConfig = AgentConfig()
    mltcp: MltcpConfig = MltcpConfig()
    measure: MeasureConfig = MeasureConfig()
    discover: DiscoverConfig = DiscoverConfig()
    gpu: GpuConfig = GpuConfig()
    marks: MarksConfig = MarksConfig()
    gossip: GossipConfig = GossipConfig()
    job: Annotated[tuple[JobConfig, ...], Meta(max_length=MAX_JOBS - 1)] = ()

    @property
    def socket_path(self) -> Path:
        """Where the control socket is."""
        return Path(self.agent.socket or f"{self.agent.run_dir}/control.sock")

    @property
    def marks_path(self) -> str:
        """Where marks arrive: a path, or @NAME for an abstract one."""
        return self.marks.socket or f"{self.agent.run_dir}/marks.sock"

    def job_named(self, name: str) -> JobConfig | None:
        """The `[[job]]` of that name."""
        return next((job for job in self.job if job.name == name), None)


@dataclass(frozen=True)
class Wishes:
    """What a job's owner asked for at `hostcc run`; None: not asked."""

    weight: float | None = None
    bytes_per_iteration: int | None = None
    flops: float | None = None

    def over(self, earlier: Wishes) -> Wishes:
        """These, and what was asked earlier where these say nothing."""
        size, flops = self.bytes_per_iteration, self.flops
        return Wishes(
            earlier.weight if self.weight is None else self.weight,
            earlier.bytes_per_iteration if size is None else size,
            earlier.flops if flops is None else flops,
        )

    def shown(self) -> dict[str, float | int | None]:
        """As the journal keeps them for the next agent."""
        asked: dict[str, float | int | None] = {
            "weight": self.weight,
            "bytes_per_iteration": self.bytes_per_iteration,
        }
        return asked if self.flops is None else {**asked, "flops": self.flops}


def expand_ports(ports: tuple[int | str, ...]) -> list[range]:
    """Ports and "LOW-HIGH" ranges as ranges; a reversed or impossible one comes out empty."""
    found = []
    for item in ports:
        low, high = (item, item) if isinstance(item, int) else map(int, item.split("-"))
        found.append(range(low, high + 1) if 1 <= low <= high <= 65535 else range(0))
    return found


def port_rules(config: Config) -> dict[tuple[int, bool], str]:
    """(port, is_remote) -> job, of every rule."""
    return {
        (port, remote): job.name
        for job in config.job
        for remote, ports in ((False, job.local_ports), (True, job.remote_ports))
        for span in expand_ports(ports)
        for port in span
    }


def shape_of(mltcp: MltcpConfig, job: JobConfig | None) -> Shape:
    """F of a job: each of its keys that is absent comes from `[mltcp]`."""
    own = job or JobConfig(name="x")
    return Shape(
        kind=own.shape if own.shape is not None else mltcp.shape,
        slope=own.slope if own.slope is not None else mltcp.slope,
        intercept=own.intercept if own.intercept is not None else mltcp.intercept,
        table=own.table if own.table is not None else mltcp.table,
    )


def job_params(
    config: Config,
    name: str,
    mode: Mode,
    static_weight: float | None = None,
    wishes: Wishes | None = None,
) -> JobParams:
    """What the kernel is told about a job.

    The order of precedence is: what its owner asked at `hostcc run`, its `[[job]]`,
    `[mltcp]`.  `static_weight` is what `unfair static` gave; without it the job's weight
    serves.
    """
    base, job = config.mltcp, config.job_named(name)
    own = job or JobConfig(name=name)
    asked = wishes or Wishes()
    weight = own.weight if asked.weight is None else asked.weight
    low = own.delay_target_min_us
    high = own.delay_target_max_us
    silence = own.silence_us if own.silence_us is not None else base.silence_us
    given = asked.bytes_per_iteration
    return JobParams(
        name=name,
        variant=own.variant or base.variant,
        mode=mode,
        scope=own.ratio_scope or base.ratio_scope,
        shape=shape_of(base, job),
        weight=weight,
        static_weight=weight if static_weight is None else static_weight,
        bytes_per_iteration=own.bytes_per_iteration if given is None else given,
        silence_us=silence or None,
        target_min_us=low if low is not None else base.delay_target_min_us,
        target_max_us=high if high is not None else base.delay_target_max_us,
    )


def variants(config: Config) -> list[Variant]:
    """The congestion controls that this configuration can need, in a fixed order."""
    wanted = {config.mltcp.variant, *(job.variant for job in config.job)}
    if Variant.DCTCP in wanted:
        wanted.add(Variant.RENO)  # what it becomes on connections without ECN
    return [variant for variant in Variant if variant in wanted]
