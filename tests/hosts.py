"""A host in a folder, for tests of whole agents on a kernel in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hostcc.bpf.loader.errors import BpfError
from hostcc.client import ask
from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.daemon import supervisor
from hostcc.daemon.agent import Agent
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.registry import Registry
from tests.fakes import FakeBackend, FakeSocket, FakeTree

Ask = Callable[..., Awaitable[dict[str, Any]]]


def without_parts(host: supervisor.Host) -> Registry:
    """A roster of which nothing runs by itself."""
    made = Registry(host)
    made.parts = supervisor.Supervisor([])
    return made


class Host:
    """One host in a folder; `agent` makes agents on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "cg"
        self.root.mkdir()
        (self.root / "cgroup.controllers").touch()
        self.tree = FakeTree(self.root)
        self.backends: list[FakeBackend] = []
        self.sockets: list[FakeSocket] = []
        self.fail: set[str] = set()

    def config(self, **agent: object) -> Config:
        made = AgentConfig(
            run_dir=str(self.folder / "run"),
            cgroup_root=str(self.root),
            network_namespaces="own",
            socket_group="",
            heartbeat_s=0.1,
        )
        return Config(agent=msgspec.structs.replace(made, **agent))

    def make_backend(self, tag: str, variants: Sequence[str], stale_s: float) -> FakeBackend:
        if "register" in self.fail:
            raise BpfError("no struct_ops here")
        backend = FakeBackend(tag, variants, stale_s, sockets=self.sockets)
        backend.fail = self.fail
        self.backends.append(backend)
        return backend

    def agent(self, config: Config | None = None, path: Path | None = None) -> Agent:
        return Agent(
            config or self.config(), path, self.make_backend, lambda root: self.tree, without_parts
        )

    def join(self, job: str) -> FakeSocket:
        """A process of the job, with one connection."""
        self.tree.join(job, 4711)
        sock = FakeSocket(cgroup_id=self.tree.identity(self.tree.path(job)))
        self.sockets.append(sock)
        return sock

    def active(self) -> list[str]:
        return sorted(Journal(self.folder / "run").active)


def play(agent: Agent, body: Callable[..., Awaitable[None]]) -> None:
    """Start, talk, stop."""

    async def scene() -> None:
        await agent.start()
        path = agent.config.socket_path

        async def request(op: str, **fields: Any) -> dict[str, Any]:
            return await asyncio.to_thread(lambda: ask(path, op, **fields))

        try:
            async with asyncio.timeout(30):
                await body(request)
        finally:
            await agent.stop()

    asyncio.run(scene())


def write_config(host: Host, text: str) -> Path:
    path = host.folder / "h.toml"
    path.write_text(
        f"[agent]\nrun_dir='{host.folder}/run'\ncgroup_root='{host.root}'\nsocket_group=''\n"
        f"network_namespaces='own'\n{text}"
    )
    return path
