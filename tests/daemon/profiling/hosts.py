"""What parts see of an agent, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.jobs.table import JobTable
from tests.fakes import FakeBackend, FakeTree

OWN = AgentConfig(network_namespaces="own")


@dataclass
class Acting:
    """As much of an engine as parts look at."""

    table: JobTable
    backend: FakeBackend


@dataclass
class ToyHost:
    """`engine` is None while it only observes."""

    folder: Path
    config: Config = field(default_factory=lambda: Config(agent=OWN))
    engine: Any = None

    def __post_init__(self) -> None:
        (self.folder / "run").mkdir()
        (self.folder / "cg").mkdir()
        self.journal = Journal(self.folder / "run")
        self.journal.open()
        self.tree = FakeTree(self.folder / "cg")

    def act(self) -> JobTable:
        backend = FakeBackend()
        table = JobTable(self.config, backend, self.tree, self.journal, "cubic")
        table.start()
        self.engine = Acting(table, backend)
        return table
