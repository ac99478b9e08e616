"""A kernel and a cgroup tree in memory, for tests of the agent without root."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import object_path
from hostcc.mltcp.backend import Records, SwitchResult
from hostcc.mltcp.params import JobParams, Mode, Variant
from hostcc.model import BoundaryHint
from hostcc.system.cgroups import CgroupTree
from hostcc.system.procfs import Stat

with BpfObject.open(object_path("mltcp")) as _mltcp:  # layouts come from the C header's BTF
    STATE = _mltcp.dtype("hcc_job_state")
    FLOW = _mltcp.dtype("hcc_flow_record")
    EVENT = _mltcp.dtype("hcc_event")


@dataclass
class FakeSocket:
    """A connection: in a cgroup or on a port, running some congestion control."""

    cgroup_id: int = 0
    lport: int = 40000
    rport: int = 50000
    ca: str = "cubic"
    slot: int = 0
    flags: int = 0
    """enum hcc_flow_flags: 1 managed, 2 foreign, 4 parted."""


@dataclass
class FakeBackend:
    """What the agent asked of the kernel, and sockets that follow."""

    tag: str = "test"
    variants: Sequence[str] = tuple(Variant)
    stale_s: float = 1.5
    default: str = "cubic"
    sockets: list[FakeSocket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.beats = 0
        self.told: list[tuple[int, JobParams | None]] = []
        self.jobs: dict[int, JobParams] = {}
        self.hints: dict[int, BoundaryHint] = {}
        self.gates: dict[int, tuple[bool, int]] = {}
        """Slot -> armed, closed until (ns)."""
        self.events_fd = -1
        self.groups: dict[int, list[Path]] = {}
        self.root: Path | None = None
        self.rules: dict[tuple[int, bool], int] = {}
        self.ids: dict[int, int] = {}
        self.walks = 0
        self.problems: list[str] = []
        self.closed = False
        self.pending: list[tuple[object, ...]] = []
        self.fail: set[str] = set()
        self.states = np.zeros(1024, STATE)

    def _maybe_fail(self, name: str) -> None:
        if name in self.fail:
            raise BpfError(f"{name} was told to fail")

    @property
    def ca_names(self) -> Mapping[str, str]:
        return {str(v): f"hcc_{self.tag}_{str(v)[:5]}" for v in self.variants}

    @property
    def shared_maps(self) -> Mapping[str, object]:
        return {}

    def beat(self) -> None:
        self._maybe_fail("beat")
        self.beats += 1

    def set_job(self, slot: int, params: JobParams | None) -> None:
        if params is not None:
            self._maybe_fail("set_job_params")
        self.told.append((slot, params))
        if params is None:
            self.jobs.pop(slot, None)
            self.hints.pop(slot, None)
            self.gates.pop(slot, None)
        else:
            self.jobs[slot] = params

    def set_hint(self, slot: int, hint: BoundaryHint | None) -> None:
        self._maybe_fail("set_hint")
        if hint is None:
            self.hints.pop(slot, None)
        else:
            self.hints[slot] = hint

    def set_gate(self, slot: int, *, armed: bool, closed_until_ns: int = 0) -> None:
        self._maybe_fail("set_gate")
        self.gates[slot] = armed, closed_until_ns

    def attach_cgroup(self, slot: int, cgroup: Path) -> None:
        self._maybe_fail("attach_cgroup")
        self.detach_cgroup(slot, cgroup)
        self.groups.setdefault(slot, []).append(cgroup)

    def detach_cgroup(self, slot: int, cgroup: Path | None = None) -> None:
        left = [path for path in self.groups.pop(slot, []) if cgroup not in (None, path)]
        if left:
            self.groups[slot] = left

    def attach_root(self, cgroup: Path) -> None:
        self.root = cgroup

    def set_port_rules(self, rules: Mapping[tuple[int, bool], int]) -> None:
        self.rules = dict(rules)

    def set_cgroup_ids(self, ids: Mapping[int, int]) -> None:
        self.ids = dict(ids)

    def _slot_of(self, sock: FakeSocket) -> int:
        return (
            self.ids.get(sock.cgroup_id, 0)
            or self.rules.get((sock.lport, False), 0)
            or self.rules.get((sock.rport, True), 0)
        )

    def switch_sockets(
        self, netns: Sequence[Path | None], slot: int = 0, to_default: bool = False
    ) -> SwitchResult:
        self._maybe_fail("switch_sockets")
        self.walks += 1
        seen = switched = 0
        for sock in self.sockets:
            sock.slot = self._slot_of(sock)
            if not sock.slot or (slot and sock.slot != slot):
                continue
            seen += 1
            if sock.flags & 2 or (to_default and not sock.flags & 1):
                continue
            sock.flags = 4 if to_default else 1
            params = self.jobs.get(sock.slot)
            plain = to_default or params is None or params.mode is Mode.OFF
            ca = self.default if plain or params is None else self.ca_names[params.variant]
            switched += sock.ca != ca
            sock.ca = ca
        return SwitchResult(seen, switched, 0)

    def job_states(self) -> Records:
        return self.states

    def flows(self, netns: Sequence[Path | None]) -> Records:
        rows = np.zeros(len(self.sockets), FLOW)
        for row, sock in zip(rows, self.sockets, strict=True):
            row["slot"] = self._slot_of(sock)
            row["family"], row["state"] = 2, 1
            row["laddr"][:4], row["raddr"][:4] = (198, 18, 0, 1), (198, 18, 0, 2)
            row["lport"], row["rport"], row["ca_name"] = sock.lport, sock.rport, sock.ca
            row["managed"] = sock.flags
            row["pacing_bps"] = 2**64 - 1
            row["cwnd"], row["srtt_us"], row["cgroup_id"] = 10, 250, sock.cgroup_id
        return rows[rows["slot"] > 0]

    def events(self) -> Records:
        rows = np.array(self.pending, EVENT) if self.pending else np.zeros(0, EVENT)
        self.pending = []
        return rows

    def program_stats(self) -> list[dict[str, Any]]:
        return []

    def check(self) -> list[str]:
        return list(self.problems)

    def close(self) -> None:
        self.closed = True


class FakeTree(CgroupTree):
    """A cgroup tree of plain folders, with processes in memory."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.members: dict[Path, set[int]] = {}
        self.homes: dict[int, str] = {}
        self.stats: dict[int, Stat] = {}
        """Processes that an agent that ends finds, by /proc."""

    def join(self, job: str, pid: int) -> None:
        self.members.setdefault(self.path(job), set()).add(pid)

    def leave(self, job: str) -> None:
        self.members.pop(self.path(job), None)

    def populated(self, path: Path) -> bool:
        return bool(self.members.get(path))

    def pids(self, path: Path) -> list[int]:
        return sorted(self.members.get(path, ()))

    def processes(self, pids: Iterable[int] | None = None) -> dict[int, Stat]:
        return {pid: stat for pid, stat in self.stats.items() if pids is None or pid in set(pids)}

    def home_of(self, pid: int) -> str:
        return self.homes.get(pid, "/home/group")

    def remove(self, path: Path) -> bool:
        return not self.members.get(path) and super().remove(path)

    def enter(self, path: Path, pid: int) -> bool:
        for at in [at for at, members in self.members.items() if pid in members]:
            self.members[at].discard(pid)
        self.members.setdefault(path, set()).add(pid)
        return True

    def moving_out(
        self, path: Path, origins: Mapping[int, str]
    ) -> Generator[None, None, list[int]]:
        while members := self.members.get(path):
            pid = members.pop()
            self.members.setdefault(Path(origins.get(pid, "/")), set()).add(pid)
            yield
        self.members.pop(path, None)
        return []


def no_such_pid() -> int:
    """A process id that nobody has."""
    return int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
