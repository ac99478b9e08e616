"""The real byte meter: BPF programs on jobs' cgroups, their cells in this process's memory.

A reading takes no system call: the cells are mapped, and so are the bits that say which of
them are in use.  The table of destinations is read, in a batch, only when it has changed.
Everything is held by descriptors of this process: when it dies, by any signal, the kernel
detaches the programs.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.bpf.loader.errors import BpfError, system_error
from hostcc.bpf.loader.libbpf import BatchOpts, call, lib
from hostcc.bpf.loader.links import BpfLink
from hostcc.bpf.loader.maps import BpfMap, possible_cpus
from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import object_path
from hostcc.limits import MAX_JOBS
from hostcc.measure import bins
from hostcc.measure.bins import Ring, Span, default_ring
from hostcc.measure.destinations import Indices, Recycling, Rows
from hostcc.measure.meter import MissingData, Window

SETTLE_NS = 50_000_000
"""A program that is preempted while it counts has so long to finish."""
_COUNTERS = ("lost_tx_bytes", "lost_rx_bytes", "lost_packets", "refused")


class KernelMeter:
    """Loads and attaches the programs; see hostcc.measure.meter.ByteMeter.

    `shared`: maps of the congestion control.  With `flows`, sockets that the flow tracker gave
    to jobs count; with `job_states`, each job's is told what the job receives.
    Raises BpfError when the kernel refuses.
    """

    def __init__(
        self, ring: Ring | None = None, shared: Mapping[str, BpfMap] | None = None
    ) -> None:
        self.ring = ring or default_ring(possible_cpus())
        self._links: dict[tuple[int, Path], tuple[int, list[BpfLink]]] = {}
        self._root: list[BpfLink] = []
        self._ruled: set[int] = set()
        self._others: dict[int, int] = {}
        self._leaving: dict[int, int] = {}
        self._quarantine: list[tuple[int, Indices]] = []
        self._rows = Rows(self.ring.rows)
        self._last = np.zeros(self.ring.rows, np.int64)
        self._recycling = Recycling(self.ring.rows - 1)
        self._learned = 0
        # Short rings give a program less time, so that most of the ring can be used.
        self._settle = min(self.ring.ceil(SETTLE_NS), self.ring.bins // 4)
        self._fence = threading.Lock()
        with contextlib.ExitStack() as stack:
            self._object = stack.enter_context(BpfObject.open(object_path("meter")))
            self._load(shared or {})
            stack.pop_all()
        self._table = self._object.map("meter_rows")
        self._free = self._object.map("meter_free")
        self._other = self._object.map("meter_other")
        self._slots = self._object.map("meter_slot")
        self._groups = self._object.map("meter_groups")
        self._ports = self._object.map("meter_ports")
        self._words = self.ring.shaped(self._object.map("meter_cells").view())
        self._touched = self.ring.shaped_touched(self._object.map("meter_touched").view())
        self._control = self._object.map("meter_control").view()[0]
        self._counted = dict.fromkeys(_COUNTERS, 0)
        _push(self._free, range(1, self.ring.rows))
        self._next = self.ring.at(time.monotonic_ns())
        self._control["first_bin"] = self._next
        self._control["generation"] = 1

    def _load(self, shared: Mapping[str, BpfMap]) -> None:
        ring = self.ring
        for name, value in (
            ("bin_shift", ring.bin_shift),
            ("ring_shift", ring.ring_shift),
            ("shard_shift", ring.shard_shift),
            ("lanes", ring.lanes),
            ("touched_words", ring.touched_words),
        ):
            self._object.set_rodata(name, value)
        for name, entries in (
            ("meter_rows", ring.rows),
            ("meter_free", ring.rows),
            ("meter_touched", ring.bins * ring.touched_words),
            ("meter_cells", ring.cells),
        ):
            _resize(self._object.map(name), entries)
        for name, table in shared.items():
            self._object.reuse_map(name, table)
        self._object.load()

    def attach_cgroup(self, slot: int, cgroup: Path) -> None:
        """Count below a job's cgroup v2 directory; a job may have several."""
        if not 0 < slot < MAX_JOBS:
            raise BpfError(f"slot: expected 1 to {MAX_JOBS - 1}, got {slot}")
        self.detach_cgroup(slot, cgroup)
        self._leaving.pop(slot, None)
        links: list[BpfLink] = []
        fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            links.extend(self._object.attach_cgroup(p, fd) for p in ("job_egress", "job_ingress"))
            number = os.fstat(fd).st_ino
            self._slots.update(number, slot)
            self._groups.update(number, slot)
        except BpfError:
            _close(links)
            raise
        finally:
            os.close(fd)
        self._links[slot, cgroup] = number, links
        self._give_other(slot)
        self.refresh()

    def detach_cgroup(self, slot: int, cgroup: Path | None = None) -> None:
        """Stop counting for one of a job's cgroups, or for all; nothing happens without any."""
        those = [key for key in self._links if key[0] == slot and cgroup in (None, key[1])]
        for key in those:
            number, links = self._links.pop(key)
            _close(links)
            self._groups.delete(number)
        if those:
            self._left({slot})
            self.refresh()

    def attach_root(self, cgroup: Path) -> None:
        """Count sockets below `cgroup` by port rules and by the tracker's word."""
        links: list[BpfLink] = []
        fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            links.extend(self._object.attach_cgroup(p, fd) for p in ("rule_egress", "rule_ingress"))
        except BpfError:
            _close(links)
            raise
        finally:
            os.close(fd)
        _close(self._root)
        self._root = links

    def set_port_rules(self, rules: Mapping[tuple[int, bool], int]) -> None:
        """Replace the port rules: (port, is_remote) -> slot."""
        wanted = {(port, int(remote)): slot for (port, remote), slot in rules.items()}
        for key in self._ports.keys():
            if (int(key["port"]), int(key["remote"])) not in wanted:
                self._ports.delete(key)
        if wanted:
            self._ports.update_batch(
                np.array(list(wanted), self._ports.key_dtype),
                np.array(list(wanted.values()), self._ports.value_dtype),
            )
        before, self._ruled = self._ruled, set(wanted.values())
        self._left(before - self._ruled)
        for slot in self._ruled:
            self._leaving.pop(slot, None)
            self._give_other(slot)
        self.refresh()

    def refresh(self) -> None:
        """Have the root programs classify every socket anew."""
        self._control["generation"] += 1

    def read(self) -> Window:
        """The complete bins since the last call, as one window."""
        ring = self.ring
        of = bins.span(self._next, self._now(), self._settle, ring.bins)
        self._learn(of)
        taken = bins.take(ring, self._words, self._touched, of)
        with self._fence:  # cells are empty before the kernel side may use them again
            pass
        self._control["first_bin"] = self._next = of.resume
        active, row = self._numbered(taken.row)
        self._last[active] = of.end
        window = Window(
            ring.bin_ns, of.begin << ring.bin_shift, of.end - of.begin, self._rows.who[active],
            row, taken.bin, taken.words, self._lost(of),
        )  # fmt: skip
        self._recycle(of)
        return window

    def _numbered(self, row: Indices) -> tuple[Indices, Indices]:
        """Distinct rows, and which of these each one is."""
        used = np.zeros(self.ring.rows, np.bool_)
        used[row] = True
        return np.flatnonzero(used), (np.cumsum(used) - 1)[row]

    def _now(self) -> int:
        """The bin that is being written."""
        return self.ring.at(time.monotonic_ns())

    @property
    def _attached(self) -> set[int]:
        """Slots that have a cgroup."""
        return {slot for slot, _ in self._links}

    def _left(self, slots: Iterable[int]) -> None:
        """Those of the slots that nothing counts for any more give up their rows, once read."""
        now = self._now()
        counted = self._ruled | self._attached
        self._leaving.update((s, now) for s in slots if s not in counted)

    def _learn(self, of: Span) -> None:
        """Read the table of destinations, if there are new ones."""
        inserted = int(self._control["inserted"])
        if inserted != self._learned:
            before = self._rows.used.copy()
            self._rows.learn(*self._table.lookup_batch())
            self._last[self._rows.used & ~before] = of.resume
            self._learned = inserted

    def _lost(self, of: Span) -> MissingData:
        now = {name: int(self._control[name]) for name in _COUNTERS}
        new = {name: now[name] - self._counted[name] for name in _COUNTERS}
        self._counted = now
        return MissingData(
            of.lost, new["lost_tx_bytes"], new["lost_rx_bytes"], new["lost_packets"], new["refused"]
        )

    def _recycle(self, of: Span) -> None:
        """Free rows of jobs that left, and the longest idle ones when few are free.

        A row is out of the kernel's table until all that was counted before has been read;
        only then somebody else gets it.
        """
        for slot in [slot for slot, since in self._leaving.items() if since < of.begin]:
            del self._leaving[slot]
            rows = self._remove(self._rows.of_slot(slot))
            if row := self._others.pop(slot, 0):
                self._other.update(slot, 0)
                rows = np.append(rows, row)
            # Nothing counts for the slot any more; only the root's programs may not know yet.
            self._set_aside(rows, self._now() if self._root else of.begin - 1)
        wanted = self._recycling.wanted(self._rows.in_use + len(self._others))
        if wanted:
            # Two rings of silence, as far as it has been read.
            idle = self._rows.idle(self._last, of.begin - 2 * self.ring.bins, wanted)
            self._set_aside(self._remove(idle), self._now())
        for since, rows in self._quarantine:
            if since < of.begin:
                _push(self._free, rows.tolist())
        self._quarantine = [entry for entry in self._quarantine if entry[0] >= of.begin]
        for slot in (self._attached | self._ruled) - self._others.keys():
            self._give_other(slot)

    def _remove(self, rows: Indices) -> Indices:
        """Take rows out of the kernel's table."""
        if len(rows):
            keys = np.zeros(len(rows), self._table.key_dtype)
            for name in ("slot", "local", "addr"):
                keys[name] = self._rows.who[name][rows]
            _delete_batch(self._table, keys)
            self._rows.drop(rows)
        return rows

    def _set_aside(self, rows: Indices, since: int) -> None:
        """Nobody gets these rows before all bins up to `since` have been read."""
        if len(rows):
            self._quarantine.append((since, rows))

    def _give_other(self, slot: int) -> None:
        """A job's row for destinations without one; when none is free, a later reading tries."""
        if slot in self._others:
            return
        row = _pop(self._free)
        if row:
            self._rows.set_other(row, slot)
            self._others[slot] = row
            self._other.update(slot, row)

    def program_stats(self) -> list[dict[str, Any]]:
        """Run counts and times; all zero unless the kernel collects them."""
        rows = self._object.program_stats()
        return [{name: row[name].item() for name in rows.dtype.names or ()} for row in rows]

    def check(self) -> list[str]:
        """Links that somebody else has broken, in words."""
        problems = [
            f"job in slot {slot}: {cgroup} is no longer metered"
            for (slot, cgroup), (_, links) in self._links.items()
            if any(link.detached_from(cgroup) for link in links)
        ]
        if not all(link.alive for link in self._root):
            problems.append("port rules are no longer metered: the root cgroup link is gone")
        return problems

    def close(self) -> None:
        """Detach everything."""
        for _, links in self._links.values():
            _close(links)
        _close(self._root)
        self._links, self._root = {}, []
        self._object.close()


def _close(links: Iterable[BpfLink]) -> None:
    for link in links:
        link.close()


def _resize(table: BpfMap, entries: int) -> None:
    """Set a map's capacity, before it is loaded."""
    function = lib().bpf_map__set_max_entries
    function.restype, function.argtypes = ctypes.c_int, (ctypes.c_void_p, ctypes.c_uint32)
    call("bpf_map__set_max_entries", table.pointer, entries, what=f"cannot resize {table.name}")


def _push(queue: BpfMap, values: Iterable[int]) -> None:
    """Append to a queue map."""
    item = ctypes.c_uint32()
    for value in values:
        item.value = value
        result = lib().bpf_map_update_elem(queue.fd, None, ctypes.addressof(item), 0)
        if result < 0:
            raise system_error(f"cannot push to map {queue.name}", -int(result))


def _pop(queue: BpfMap) -> int:
    """Take from a queue map; 0 when it is empty."""
    function = lib().bpf_map_lookup_and_delete_elem
    function.restype = ctypes.c_int
    function.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    item = ctypes.c_uint32()
    result = int(function(queue.fd, None, ctypes.addressof(item)))
    if result == -errno.ENOENT:
        return 0
    if result < 0:
        raise system_error(f"cannot pop from map {queue.name}", -result)
    return item.value


def _delete_batch(table: BpfMap, keys: Any) -> None:
    """Delete many entries in one system call; those that are not there end it."""
    function = lib().bpf_map_delete_batch
    function.restype = ctypes.c_int
    function.argtypes = (
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(BatchOpts),
    )  # fmt: skip
    count = ctypes.c_uint32(len(keys))
    options = BatchOpts(ctypes.sizeof(BatchOpts), 0, 0)
    result = int(function(table.fd, keys.ctypes.data, count, options))
    if result < 0:
        raise system_error(f"cannot drop entries of map {table.name}", -result)
