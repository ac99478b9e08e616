"""The agent's configuration as a whole, and the parameters that follow from it for each job.

Its sections are in hostcc.config.sections. Their types are the reference, docs/config.md is the
same for operators. Files are read by load.py. Nothing here has side effects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.discover import DiscoverConfig
from hostcc.config.sections.egress import EgressConfig
from hostcc.config.sections.gossip import GossipConfig
from hostcc.config.sections.job import JobConfig, JobRequest
from hostcc.config.sections.marking import MarkingConfig
from hostcc.config.sections.measure import GpuConfig, MarksConfig, MeasureConfig
from hostcc.config.sections.mltcp import MltcpConfig
from hostcc.config.sections.paths import PathsConfig
from hostcc.config.sections.pcie import PcieConfig
from hostcc.config.sections.plan import PlanConfig
from hostcc.config.sections.rdma import RdmaConfig
from hostcc.config.sections.shifts import ShiftsConfig
from hostcc.config.sections.users import UsersConfig
from hostcc.limits import MAX_JOBS
from hostcc.mltcp.params import JobParams, Mode, Shape, Variant
from hostcc.system.quota import Quota


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One whole configuration."""

    agent: AgentConfig = AgentConfig()
    users: UsersConfig = UsersConfig()
    mltcp: MltcpConfig = MltcpConfig()
    measure: MeasureConfig = MeasureConfig()
    discover: DiscoverConfig = DiscoverConfig()
    gpu: GpuConfig = GpuConfig()
    marks: MarksConfig = MarksConfig()
    gossip: GossipConfig = GossipConfig()
    plan: PlanConfig = PlanConfig()
    shifts: ShiftsConfig = ShiftsConfig()
    marking: MarkingConfig = MarkingConfig()
    egress: EgressConfig = EgressConfig()
    rdma: RdmaConfig = RdmaConfig()
    pcie: PcieConfig = PcieConfig()
    paths: PathsConfig = PathsConfig()
    job: Annotated[tuple[JobConfig, ...], Meta(max_length=MAX_JOBS - 1)] = ()

    @property
    def socket_path(self) -> Path:
        """Path of the control socket."""
        return Path(self.agent.socket or f"{self.agent.run_dir}/control.sock")

    @property
    def marks_path(self) -> str:
        """Address of the socket for iteration marks: a path, or @NAME for an abstract one."""
        return self.marks.socket or f"{self.agent.run_dir}/marks.sock"

    @property
    def shim_variables(self) -> dict[str, str]:
        """Variables of a job's environment that name the memory that its shim uses."""
        return {
            "HOSTCC_RDMA_PLAN": self.rdma.plan,
            "HOSTCC_RDMA_COUNTS": self.rdma.counts,
            "HOSTCC_PCIE_SEMAPHORES": self.pcie.semaphores,
        }

    def quota(self, total: int = MAX_JOBS - 1) -> Quota:
        """Return the quota per user of job slots, or of another resource with `total` units."""
        agent = self.agent
        return Quota(total, agent.per_uid, min(agent.for_root, total))

    def job_named(self, name: str) -> JobConfig | None:
        """Return the `[[job]]` of that name; None: there is none."""
        return next((job for job in self.job if job.name == name), None)


def expand_ports(ports: tuple[int | str, ...]) -> list[range]:
    """Return ports and "LOW-HIGH" ranges as ranges; reversed or impossible ones are empty."""
    found = []
    for item in ports:
        low, high = (item, item) if isinstance(item, int) else map(int, item.split("-"))
        found.append(range(low, high + 1) if 1 <= low <= high <= 65535 else range(0))
    return found


def port_rules(config: Config) -> dict[tuple[int, bool], str]:
    """Return (port, is_remote) -> job for all port rules."""
    return {
        (port, remote): job.name
        for job in config.job
        for remote, ports in ((False, job.local_ports), (True, job.remote_ports))
        for span in expand_ports(ports)
        for port in span
    }


def shape_of(mltcp: MltcpConfig, job: JobConfig | None) -> Shape:
    """Return F of a job: keys that the job does not set come from `[mltcp]`."""
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
    wishes: JobRequest | None = None,
) -> JobParams:
    """Return the congestion-control parameters of a job.

    Precedence: what its owner asked for at `hostcc run`, then its `[[job]]`, then `[mltcp]`.
    `static_weight` is the one set by `unfair static`; without it the job's weight applies.
    """
    base, job = config.mltcp, config.job_named(name)
    own = job or JobConfig(name=name)
    asked = wishes or JobRequest()
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
    """Return the congestion controls that this configuration can need, in a fixed order."""
    wanted = {config.mltcp.variant, *(job.variant for job in config.job)}
    if Variant.DCTCP in wanted:
        wanted.add(Variant.RENO)  # what it becomes on connections without ECN
    return [variant for variant in Variant if variant in wanted]
