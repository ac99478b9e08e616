"""A host with a kernel in memory, on which agents come and go."""

from __future__ import annotations

from pathlib import Path

from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.job import JobRequest
from hostcc.daemon.changes import kinds
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.jobs import released as kept
from hostcc.daemon.jobs.table import JobTable
from hostcc.system.procfs import Stat
from tests.fakes import FakeBackend, FakeSocket, FakeTree

OWN = AgentConfig(network_namespaces="own")


class World:
    """One host: a tree, a journal, a kernel, a clock; agents come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "run").mkdir()
        (folder / "cg").mkdir()
        self.tree = FakeTree(folder / "cg")
        self.now = 100.0
        self.backend = FakeBackend()
        self.journal = Journal(folder / "run")

    def agent(
        self, config: Config | None = None, left_groups: kept.LeftGroups | None = None
    ) -> JobTable:
        """A new agent on this host; the sockets stay."""
        self.journal.close()
        self.journal = Journal(self.folder / "run")
        self.journal.open()
        ended = kinds.ended_with_agent(self.journal.active.values())
        self.journal.undone(ended, "ended with the earlier agent")
        self.backend = FakeBackend(sockets=self.backend.sockets)
        table = JobTable(
            config or Config(agent=OWN),
            self.backend,
            self.tree,
            self.journal,
            "cubic",
            lambda: self.now,
        )
        table.start(left_groups)
        return table

    def socket_in(self, job: str) -> FakeSocket:
        sock = FakeSocket(cgroup_id=self.tree.identity(self.tree.path(job)))
        self.backend.sockets.append(sock)
        return sock

    def active(self) -> list[str]:
        return sorted(Journal(self.folder / "run").active)


def running(world: World, table: JobTable, job: str, pid: int, wishes: JobRequest) -> None:
    """A job with a process that an agent which ends finds by /proc."""
    world.tree.homes[pid] = f"/user.slice/{pid}"
    world.tree.stats[pid] = Stat("python", 1, pid * 100)
    table.register(job, wishes, pid)
    table.enter(job, pid)
