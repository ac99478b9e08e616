"""MltcpBackend on the real kernel: BPF objects, links, maps and iterators.

Everything is held by descriptors of this process. When it dies, by any signal, the kernel drops the
links and unregisters the congestion controls. Sockets that still run one notice the stale heartbeat
and act as the plain algorithm.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.links import BpfLink
from hostcc.bpf.loader.maps import BpfMap
from hostcc.bpf.loader.netns import in_netns
from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import congestion_path, object_path
from hostcc.mltcp.backend import Records, SwitchResult
from hostcc.mltcp.kernel_names import STRUCT_OPS, kernel_names
from hostcc.mltcp.params import JobParams, Mode, Scope, Variant
from hostcc.mltcp.shape import Q10, f_table_q10, tie_q10, urgency_bias_q10
from hostcc.model import BoundaryHint

DEFAULT_CA = Path("/proc/sys/net/ipv4/tcp_congestion_control")
MAX_U32 = 2**32 - 1
_BPF_MODE = {Mode.OFF: "HCC_MODE_OFF", Mode.MLTCP: "HCC_MODE_MLTCP", Mode.STATIC: "HCC_MODE_STATIC"}
_BPF_SCOPE = {Scope.JOB: "HCC_SCOPE_JOB", Scope.FLOW: "HCC_SCOPE_FLOW"}


class MltcpKernel:
    """Loads the objects and registers `variants` as hcc_<tag>_<variant>.

    Raises BpfError when the kernel refuses, and ValueError for an invalid tag.
    """

    def __init__(self, tag: str, variants: Iterable[str], stale_s: float) -> None:
        wanted = [Variant(v) for v in variants]
        self._names = kernel_names(tag, wanted)
        self._jobs: dict[int, JobParams] = {}
        self._hints: dict[int, tuple[int, BoundaryHint]] = {}
        """Slot -> hint_id and hint."""
        self._hints_written = 0
        self._cgroups: dict[tuple[int, Path], BpfLink] = {}
        self._root: BpfLink | None = None
        self._stale_ns = int(stale_s * 1e9)
        self._ops: dict[Variant, BpfLink] = {}
        with contextlib.ExitStack() as stack:
            self._mltcp = stack.enter_context(
                BpfObject.open(
                    congestion_path(), {STRUCT_OPS[v]: name for v, name in self._names.items()}
                )
            )
            for variant in set(Variant) - set(wanted):
                self._mltcp.set_autocreate(STRUCT_OPS[variant], False)
            self._mltcp.load()
            self._tracker = stack.enter_context(BpfObject.open(object_path("tracker")))
            self._tracker.set_rodata("ca_tag", int.from_bytes(f"hcc_{tag}".encode(), sys.byteorder))
            for shared in ("job_confs", "job_states", "config", "flows"):
                self._tracker.reuse_map(shared, self._mltcp.map(shared))
            self._tracker.load()
            self._confs = self._mltcp.map("job_confs")
            self._states = self._mltcp.map("job_states")
            self._config = self._mltcp.map("config").entry(0)
            self._config.value["stale_ns"] = self._stale_ns
            self._gates = self._mltcp.map("gates")
            self._job_ca = self._tracker.map("job_ca")
            self._request = self._tracker.map("switch_req")
            self._rules = self._tracker.map("port_rules")
            self._cgroup_ids = self._tracker.map("cgroup_ids")
            self._cgroup_slot = self._tracker.map("cgroup_slot")
            self._events = self._mltcp.ringbuf("events")
            self._record = self._tracker.dtype("hcc_flow_record")
            self._enums = self._mltcp.enums
            self.beat()
            for variant in wanted:
                link = self._mltcp.attach_struct_ops(STRUCT_OPS[variant])
                self._ops[variant] = link
                stack.callback(link.close)
            stack.pop_all()

    @property
    def ca_names(self) -> Mapping[str, str]:
        """Variant -> the name registered with the kernel."""
        return {str(v): name for v, name in self._names.items()}

    @property
    def shared_maps(self) -> Mapping[str, BpfMap]:
        """Maps of each socket's job, and of jobs' states, in which received bytes are counted."""
        return {name: self._mltcp.map(name) for name in ("flows", "job_states")}

    def beat(self) -> None:
        """Write the heartbeat: CLOCK_MONOTONIC now."""
        self._config.value["heartbeat_ns"] = time.monotonic_ns()
        self._config.write()

    def set_job(self, slot: int, params: JobParams | None) -> None:
        """Write job_confs[slot] and job_ca[slot]; None clears them and the learned state."""
        if params is None:
            self._jobs.pop(slot, None)
            self._hints.pop(slot, None)
            self._job_ca.update(slot, (b"",))
            self._confs.update(slot, np.zeros((), self._confs.value_dtype))
            self._states.update(slot, np.zeros((), self._states.value_dtype))
            self.set_gate(slot, armed=False)
            return
        if params.variant not in self._names:
            raise BpfError(f"job {params.name}: variant {params.variant} was not loaded")
        name = "" if params.mode is Mode.OFF else self._names[params.variant]
        self._jobs[slot] = params
        self._confs.update(slot, self._conf(slot, params))
        self._job_ca.update(slot, (name.encode(),))

    def set_hint(self, slot: int, hint: BoundaryHint | None) -> None:
        """Write the hint into job_confs[slot], under a new number; nothing for an empty slot."""
        if slot not in self._jobs:
            return
        if hint is None:
            self._hints.pop(slot, None)
        else:
            self._hints_written = self._hints_written % MAX_U32 + 1
            self._hints[slot] = self._hints_written, hint
        self._confs.update(slot, self._conf(slot, self._jobs[slot]))

    def set_gate(self, slot: int, *, armed: bool, closed_until_ns: int = 0) -> None:
        """Write gates[slot]; CLOCK_MONOTONIC."""
        gate = np.zeros((), self._gates.value_dtype)
        gate["closed_until_ns"], gate["armed"] = max(0, closed_until_ns), armed
        self._gates.update(slot, gate)

    def _conf(self, slot: int, params: JobParams) -> np.void:
        conf = np.zeros((), self._confs.value_dtype)
        points = conf["f_q10"].shape[0]
        conf["in_use"] = 1
        conf["mode"] = self._enums[_BPF_MODE[params.mode]]
        conf["scope"] = self._enums[_BPF_SCOPE[params.scope]]
        conf["static_f_q10"] = max(1, round(params.static_weight * Q10))
        conf["total_bytes"] = params.bytes_per_iteration or 0
        conf["silence_us"] = params.silence_us or 0
        conf["target_min_us"] = params.target_min_us
        conf["target_max_us"] = params.target_max_us
        conf["urgency_bias_q10"] = urgency_bias_q10(
            params.weight, self._enums["HCC_URGENCY_PER_OCTAVE"]
        )
        conf["tie_q10"] = tie_q10(params.name)
        conf["f_q10"] = f_table_q10(params.shape, params.weight, points)
        conf["plain_q10"] = max(1, round(params.plain_weight * Q10))
        if slot in self._hints and not params.silence_us:  # what the owner gave comes first
            conf["hint_id"], hint = self._hints[slot]
            conf["hint_period_us"] = _microseconds(hint.period_s)
            conf["hint_silence_us"] = _microseconds(hint.silence_s)
            conf["hint_pause_us"] = _microseconds(hint.pause_s)
            conf["hint_bytes"] = round(hint.bytes)
            conf["hint_margin_bytes"] = round(hint.margin_bytes)
        return cast("np.void", conf[()])

    def attach_cgroup(self, slot: int, cgroup: Path) -> None:
        """Track new sockets below a job's cgroup v2 directory; a job may have several."""
        self.detach_cgroup(slot, cgroup)
        fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            link = self._tracker.attach_cgroup("job_sockops", fd)
            try:
                self._cgroup_slot.update(os.fstat(fd).st_ino, slot)
            except BpfError:
                link.close()
                raise
        finally:
            os.close(fd)
        self._cgroups[slot, cgroup] = link

    def detach_cgroup(self, slot: int, cgroup: Path | None = None) -> None:
        """Stop tracking a job's cgroup, or all of them; does nothing if it is not tracked."""
        for key in [key for key in self._cgroups if key[0] == slot and cgroup in (None, key[1])]:
            self._cgroups.pop(key).close()

    def attach_root(self, cgroup: Path) -> None:
        """Apply port rules to new sockets below `cgroup`."""
        fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            link = self._tracker.attach_cgroup("rule_sockops", fd)
        finally:
            os.close(fd)
        if self._root:
            self._root.close()
        self._root = link

    def set_port_rules(self, rules: Mapping[tuple[int, bool], int]) -> None:
        """Replace the port rules: (port, is_remote) -> slot."""
        _replace(self._rules, [(port, int(remote)) for port, remote in rules], list(rules.values()))

    def set_cgroup_ids(self, ids: Mapping[int, int]) -> None:
        """Replace the cgroup ids of existing sockets: id -> slot."""
        _replace(self._cgroup_ids, list(ids), list(ids.values()))

    def switch_sockets(
        self, netns: Sequence[Path | None], slot: int = 0, to_default: bool = False
    ) -> SwitchResult:
        """Set existing sockets to their job's congestion control, or to the namespace's default."""
        totals = np.zeros(3, dtype=np.int64)
        for where in netns:
            totals += in_netns(where, lambda: self._switch_here(slot, to_default))
        return SwitchResult(*(int(n) for n in totals))

    def _switch_here(self, slot: int, to_default: bool) -> list[int]:
        request = np.zeros((), self._request.value_dtype)
        request["slot"], request["to_default"] = slot, to_default
        request["default_ca"] = DEFAULT_CA.read_text().strip().encode()
        self._request.update(0, request[()])
        self._walk("switch_tcp")
        done = self._request.lookup(0)
        return [int(done[key]) for key in ("seen", "switched", "failed")]

    def _walk(self, program: str) -> bytes:
        iterator = self._tracker.attach_iter(program)
        try:
            return iterator.read()
        finally:
            iterator.close()

    def job_states(self) -> Records:
        """Return one row of struct hcc_job_state per slot."""
        return self._states.lookup_batch()[1]

    def flows(self, netns: Sequence[Path | None]) -> Records:
        """Return one row of struct hcc_flow_record per TCP socket of a job."""
        parts = [in_netns(where, lambda: self._walk("dump_tcp")) for where in netns]
        return np.frombuffer(b"".join(parts), dtype=self._record)

    def events(self) -> Records:
        """Return what the programs reported since the last call."""
        return self._events.consume()

    @property
    def events_fd(self) -> int:
        """Descriptor that becomes readable when something is reported."""
        return self._events.fd

    def program_stats(self) -> list[dict[str, Any]]:
        """Return run counts and times; all zero unless the kernel collects them."""
        rows = np.concatenate([self._mltcp.program_stats(), self._tracker.program_stats()])
        names = rows.dtype.names or ()
        return [{name: row[name].item() for name in names} for row in rows]

    def check(self) -> list[str]:
        """Return in words which links have been broken by others."""
        problems = [
            f"congestion control {self._names[variant]} is no longer registered"
            for variant, link in self._ops.items()
            if not link.alive
        ]
        for (slot, cgroup), link in self._cgroups.items():
            if link.detached_from(cgroup):
                problems.append(f"job {self._jobs[slot].name}: {cgroup} is no longer followed")
        if self._root and not self._root.alive:
            problems.append("port rules are no longer applied: the root cgroup link is gone")
        return problems

    def close(self) -> None:
        """Detach and unregister everything."""
        for slot, _ in list(self._cgroups):
            self.detach_cgroup(slot)
        if self._root:
            self._root.close()
            self._root = None
        for link in self._ops.values():
            link.close()
        self._ops.clear()
        self._tracker.close()
        self._mltcp.close()


def _microseconds(seconds: float) -> int:
    """As the kernel's fields hold it, at most 71 minutes."""
    return min(round(seconds * 1e6), MAX_U32)


def _replace(table: Any, keys: list[Any], values: list[int]) -> None:
    """Make a hash map hold exactly these entries, adding before removing."""
    old = {key.tobytes(): key for key in table.keys()}
    if keys:
        packed = np.array(keys, dtype=table.key_dtype)
        table.update_batch(packed, np.array(values, dtype=table.value_dtype))
        for key in packed:
            old.pop(key.tobytes(), None)
    for key in old.values():
        table.delete(key)
