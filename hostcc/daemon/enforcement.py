"""What is in force on this host: congestion controls and the job table, made and undone as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hostcc.answers.flows import Flows
from hostcc.answers.host import LeftAlone
from hostcc.answers.status import JobStatus
from hostcc.bpf.loader.errors import BpfError
from hostcc.config.schema import Config, variants
from hostcc.daemon.changes import kinds
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.jobs import released, verification, views
from hostcc.daemon.jobs.sockets import new_walker, walked
from hostcc.daemon.jobs.start_changes import planned as planned_jobs
from hostcc.daemon.jobs.table import JobTable
from hostcc.daemon.preflight import tag
from hostcc.errors import HostccError
from hostcc.log import get_logger
from hostcc.mltcp.backend import MltcpBackend
from hostcc.mltcp.kernel_names import kernel_names
from hostcc.mltcp.params import Mode
from hostcc.model import Change, Difference
from hostcc.system.cgroups import CgroupTree, resolve_root
from hostcc.system.slices import at_once, in_slices

log = get_logger("engine")

MakeBackend = Callable[[str, Sequence[str], float], MltcpBackend]
MakeTree = Callable[[Path], CgroupTree]
DEFAULT_CA = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def kernel_backend(name: str, wanted: Sequence[str], stale_s: float) -> MltcpBackend:
    """The real kernel; imported only when it is needed."""
    from hostcc.mltcp.kernel import MltcpKernel

    return MltcpKernel(name, wanted, stale_s)


class Engine:
    """The congestion controls and jobs in force.  Methods raise BpfError, OSError, HostccError."""

    def __init__(
        self,
        config: Config,
        journal: Journal,
        make_backend: MakeBackend,
        make_tree: MakeTree,
        left_groups: released.LeftGroups | None = None,
        override: tuple[Mode, Mapping[str, float], str] | None = None,
    ) -> None:
        """`left_groups`: cgroups of an earlier agent; None: they are read here, and taken over at
        once.  `override`: how jobs share, static weights, and who says so."""
        self._journal = journal
        self._built_for = fixed_settings(config)
        self.default_ca = default_ca()
        tree = make_tree(resolve_root(config.agent.cgroup_root))
        stale = config.agent.heartbeat_stale_s
        with journal.making(*controls(config)):
            self.backend = make_backend(_tag(config), variants(config), stale)
        self.table = JobTable(
            config, self.backend, tree, journal, self.default_ca, walker=new_walker()
        )
        try:
            self.table.start(left_groups)
            if override is not None:
                self.table.share(*override)
        except BaseException as error:
            self.table.removal.remove_base(f"failed: {error}")
            self.drop(f"failed: {error}")
            raise

    def fits(self, config: Config) -> bool:
        """Whether a new configuration can be applied without registering anew."""
        return fixed_settings(config) == self._built_for

    def job_status(self) -> list[JobStatus]:
        """One row per job, for status."""
        return views.job_status(self.table, self.backend)

    async def flows(self, only: str | None, limit: int) -> Flows:
        """The jobs' connections, or those of one job."""
        rows = await walked(self.table.sockets.flows(self.table.jobs.values()))
        jobs, names = self.table.by_slot(), self.backend.ca_names
        return await asyncio.to_thread(views.flows, rows, jobs, names, only, limit)

    def check(self) -> list[Difference]:
        """Compare everything but connections with what was made; cheap."""
        return verification.differences(self.table, self.backend)

    async def check_flows(self) -> tuple[list[Difference], list[LeftAlone]]:
        """Find connections that run another control than the agent chose, and those whose control
        somebody else chose.  Walks over all sockets of jobs."""
        await self.table.moved()
        rows = await walked(self.table.sockets.flows(self.table.jobs.values()))
        jobs, names = self.table.by_slot(), self.backend.ca_names
        odd = await asyncio.to_thread(verification.of_flows, rows, jobs, names)
        return odd, await asyncio.to_thread(verification.left_alone, rows, jobs)

    async def restore(self, how: str) -> list[str]:
        """Undo everything; returns what could not be undone, in words."""
        try:
            await self.table.release_sockets()
        except (BpfError, OSError, HostccError) as error:
            log.failure("sockets not given back, once more", reason=str(error))
        finally:
            steps = self.table.releasing(how)
            try:
                problems = await in_slices(steps)
                if (removal := self.table.removal).ending:
                    await asyncio.to_thread(removal.wait)
                    problems += removal.finish(how) or removal.remove_base(how)
            except asyncio.CancelledError:
                at_once(steps)  # nothing else would finish it
                raise
            finally:
                self.drop(how)
        return problems

    def drop(self, how: str) -> None:
        """Unregister, leaving cgroups and their processes as they are."""
        self.table.close()
        self.backend.close()
        ended = kinds.ended_with_agent(self._journal.active.values())
        self._journal.undone(ended, how)


def fixed_settings(config: Config) -> tuple[tuple[str, ...], float]:
    """Settings that are fixed when the backend is made."""
    return tuple(variants(config)), config.agent.heartbeat_stale_s


def controls(config: Config) -> list[Change]:
    """The congestion controls to register, one for each variant."""
    names = kernel_names(_tag(config), variants(config))
    return [kinds.congestion_control(str(variant), name) for variant, name in names.items()]


def _tag(config: Config) -> str:
    return tag(config.agent.instance, Path(config.agent.run_dir))


def default_ca() -> str:
    """Read the congestion control of new sockets in this network namespace."""
    try:
        return DEFAULT_CA.read_text().strip()
    except OSError:
        return "the host's default"


def planned(config: Config, tree: CgroupTree, left: Mapping[str, Change]) -> list[Change]:
    """The changes that an `Engine` makes; `left`: those in force by an earlier agent's journal."""
    names = kernel_names(_tag(config), variants(config))
    return [*controls(config), *planned_jobs(config, tree, left, names, default_ca())]
