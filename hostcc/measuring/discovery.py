"""Jobs that nobody started with `hostcc run`: looked for now and then, and managed like others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostcc.bpf.errors import BpfError
from hostcc.cgroups import find_mount, resolve_root
from hostcc.errors import HostccError, one_line
from hostcc.jobs import JobTable
from hostcc.log import get_logger
from hostcc.measure.discover import procfs
from hostcc.measure.discover.find import find
from hostcc.measure.discover.scan import Scanner, read
from hostcc.measure.discover.types import Found, ProcessRef, Rules, Snapshot
from hostcc.measuring.livejobs import Seen, host_name
from hostcc.model import Difference
from hostcc.parts import Host
from hostcc.sections.job import Wishes

log = get_logger("discovery")

SHARE = 500.0
"""A look takes at most the this-manieth part of the time."""
SELDOM_S = 60.0
"""But there is one so often, seconds."""
MOVED_MOST = 64
"""Processes that are moved at one look."""
BUSY_GROUP = "its processes share a cgroup with others', whose limits they would leave"


class Discovery:
    """Keeps `seen` current and, where the agent acts, the table of jobs with it."""

    name = "discovery"

    def __init__(self, host: Host, seen: Seen, proc: Path = Path("/proc")) -> None:
        self._host = host
        self._seen = seen
        self._proc = proc
        self._scanner: Scanner | None = None
        self._scanner_environ = True
        self._followed: set[str] = set()
        self._table: JobTable | None = None
        self._told: dict[str, str] = {}
        self._cost_s = 0.0
        self._complete = True

    @property
    def every_s(self) -> float:
        """As configured, and more where a look is expensive."""
        asked = self._host.config.discover.every_s
        return max(asked, min(SHARE * self._cost_s, SELDOM_S))

    def off(self) -> str:
        """Configured away?"""
        return "" if self._host.config.discover.enabled else "discover.enabled is false"

    def start(self) -> None:
        """Nothing is known yet."""
        self._scanner = None

    async def tick(self) -> None:
        """Look, decide, manage."""
        discover = self._host.config.discover
        if self._scanner is None or self._scanner_environ != discover.environ:
            self._scanner_environ = discover.environ
            host = host_name(self._host.config)
            self._scanner = Scanner(self._proc, host, discover.environ)
        mount = find_mount()
        inside = _below(mount, self._host.config.agent.cgroup_root)
        found = await asyncio.to_thread(self._look, self._scanner, discover.rules, inside)
        self._seen.found, self._seen.mount = found, mount
        self._manage(found, mount)

    def stop(self) -> None:
        """Jobs that were found are no longer followed."""
        self._seen.found = ()
        self._manage((), None)
        self._scanner = None

    def verify(self) -> list[Difference]:
        """The engine checks what is attached."""
        return []

    def view(self) -> Mapping[str, Any]:
        """How many there are, and which are not managed."""
        return {
            "found": len(self._seen.found),
            "complete": self._complete,
            "look_s": self._cost_s,
            "unmanaged": dict(self._seen.unmanaged),
        }

    def _look(self, scanner: Scanner, rules: Rules, inside: str) -> tuple[Found, ...]:
        """In a thread: a process that is stuck in the kernel can hold this up."""
        began = time.thread_time()
        snapshot = scanner.snapshot()
        self._complete = snapshot.complete
        found = find(within(snapshot, inside), rules)
        self._cost_s = time.thread_time() - began
        return found

    def _manage(self, found: tuple[Found, ...], mount: Path | None) -> None:
        engine = self._host.engine
        table = engine.table if engine is not None else None
        if table is not self._table:
            self._table, self._followed = table, set()
        wanted = found if self._host.config.discover.manage else ()
        unmanaged: dict[str, str] = {}
        if table is not None:
            movable = self._host.config.discover.move == "auto" and limits_nothing(mount)
            for one in wanted:
                if why := self._manage_one(table, one, mount, movable):
                    unmanaged[one.id] = why
            for name in self._followed - {one.id for one in wanted if one.groups}:
                self._followed.discard(name)
                if name in table.jobs:
                    table.follow(name, (), "no longer found")
        self._seen.unmanaged = unmanaged
        for name, why in unmanaged.items():
            if self._told.get(name) != why:  # once
                log.warning("job is not managed", job=name, reason=why)
        self._told = unmanaged

    def _manage_one(self, table: JobTable, one: Found, mount: Path | None, movable: bool) -> str:
        """Have a found job managed; why not, or empty."""
        why = f"{one.kind}: {'; '.join(one.evidence)}"
        try:
            if one.groups and mount is not None:
                if one.id not in table.jobs:
                    log.info("job found", job=one.id, kind=one.kind, why=why)
                table.follow(one.id, [mount / group.lstrip("/") for group in one.groups], why)
                self._followed.add(one.id)
            if not one.loose:
                return ""
            if not movable:
                return BUSY_GROUP
            self._gather(table, one, why)
        except (BpfError, HostccError, OSError) as error:
            return one_line(str(error))
        return ""

    def _gather(self, table: JobTable, one: Found, why: str) -> None:
        """Move processes without a cgroup of their own into one for their job."""
        for ref in one.loose[:MOVED_MOST]:
            if self._is(ref):
                table.register(one.id, Wishes(), ref.pid, why)
                table.enter(one.id, ref.pid)
        if one.id in table.jobs:
            table.jobs[one.id].how = why

    def _is(self, ref: ProcessRef) -> bool:
        """Whether the process still is the one that was seen."""
        stat = procfs.stat(read(f"{self._proc}/{ref.pid}/stat", 4096))
        return stat is not None and stat.started == ref.started


def within(snapshot: Snapshot, inside: str) -> Snapshot:
    """The processes below one cgroup v2 path; "/": all."""
    if inside == "/":
        return snapshot
    kept = tuple(
        process
        for process in snapshot.processes
        if process.group == inside or process.group.startswith(f"{inside}/")
    )
    return replace(snapshot, processes=kept)


def limits_nothing(mount: Path | None) -> bool:
    """Whether leaving a cgroup v2 costs no process a limit: no group has a controller (hybrid)."""
    if mount is None:
        return False
    try:
        return not (mount / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def _below(mount: Path | None, cgroup_root: str) -> str:
    """The agent's cgroup root as a path in /proc/PID/cgroup; "/" without cgroup v2."""
    if mount is None:
        return "/"
    root = resolve_root(cgroup_root)
    return f"/{root.relative_to(mount)}".rstrip(".") if root.is_relative_to(mount) else "/"
