"""Follows when the kernel begins iterations of the lab's jobs: reads the maps of running agents.

An agent's status counts boundaries and does not say when they were, so the benchmark reads the
same map as the agent, found among those that it has open.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.held import held
from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.libbpf import lib
from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import congestion_path
from hostcc.client import ask
from hostcc.errors import HostccError

POLL_S = 0.004
"""Between two looks at all agents: bursts of an iteration are farther apart."""
CONNECT_S = 0.2
"""Between two attempts to find an agent that has not started yet."""
NICE = -15
"""Of the thread that reads: as the lab's jobs have."""
ASK_S = 2.0
"""Between two questions to each agent: jobs that have ended are in no status."""
SLOT = 1
"""Of the one job of a lab host."""
INFO_BYTES = 256
NAME_AT, NAME_BYTES = 24, 16
"""Of `name` in struct bpf_map_info (linux/bpf.h)."""


@dataclass
class SeenStarts:
    """Iterations that one host's kernel has begun."""

    ends: int = 0
    """Iterations that it has counted as over."""
    starts_ns: dict[int, int] = field(default_factory=dict)
    """Number of iterations before -> when the next one began, CLOCK_MONOTONIC."""
    rows: list[tuple[float, Mapping[str, Any]]] = field(default_factory=list)
    """When the agent's status was asked, CLOCK_MONOTONIC seconds, and the job's row in it."""

    def add(self, state: Any) -> None:
        """Take in a state of the job; of two boundaries since the last one, both."""
        count, start = int(state["iterations"]), int(state["iteration_start_ns"])
        if not start:
            return
        if count > self.ends + 1 and count - 1 not in self.starts_ns:
            self.starts_ns[count - 1] = start - int(state["period_ns"])
        # A handshake may begin an iteration again without having ended one.
        self.starts_ns[count] = start
        self.ends = max(self.ends, count)


class BoundaryWatch:
    """Reads the states of jobs in a thread, by host; a context manager.

    `sockets`: host -> control socket of its agent, which need not run yet.
    """

    def __init__(self, sockets: Mapping[str, Path]) -> None:
        with BpfObject.open(congestion_path()) as unloaded:
            self._state = np.zeros((), unloaded.dtype("hcc_job_state"))
        self._waiting = dict(sockets)
        self._maps: dict[str, int] = {}
        self._stop = threading.Event()
        self._sockets = dict(sockets)
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (self._run, self._run_asking)
        ]
        self.seen = {host: SeenStarts() for host in sockets}

    def __enter__(self) -> BoundaryWatch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for fd in self._maps.values():
            os.close(fd)

    def _run(self) -> None:
        # Boundaries that come while it waits for a processor could not be told apart.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        while self._waiting and not self._stop.wait(CONNECT_S):
            self._connect()
        while not self._stop.wait(POLL_S):
            self._read()
        self._read()

    def _run_asking(self) -> None:
        while not self._stop.wait(ASK_S):
            for host, path in self._sockets.items():
                with suppress(HostccError):
                    asked_s, rows = time.monotonic(), ask(path, "status")["jobs"]
                    if rows:
                        self.seen[host].rows.append((asked_s, rows[0]))

    def _connect(self) -> None:
        for host, path in list(self._waiting.items()):
            with suppress(HostccError, OSError):
                pid = int(ask(path, "status")["agent"]["pid"])
                self._maps[host] = _descriptor(pid, "job_states")
                del self._waiting[host]

    def _read(self) -> None:
        key = ctypes.c_uint32(SLOT)
        for host, fd in self._maps.items():
            at = self._state.ctypes.data
            if lib().bpf_map_lookup_elem(fd, ctypes.addressof(key), at) == 0:
                self.seen[host].add(self._state)


def _descriptor(pid: int, name: str) -> int:
    """A descriptor of a process's map.  Raises BpfError, and OSError when the process is gone."""
    for number in held(pid).ids["map"]:
        fd = int(lib().bpf_map_get_fd_by_id(number))
        if fd < 0:
            continue
        info, size = ctypes.create_string_buffer(INFO_BYTES), ctypes.c_uint32(INFO_BYTES)
        known = lib().bpf_obj_get_info_by_fd(fd, ctypes.addressof(info), size) == 0
        if known and info.raw[NAME_AT : NAME_AT + NAME_BYTES].split(b"\0")[0] == name.encode():
            return fd
        os.close(fd)
    raise BpfError(f"process {pid} has no map {name}")
