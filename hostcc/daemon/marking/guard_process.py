"""Takes all marks away when the agent is gone: the program of guard.py, a process of its own.

Words: descriptors of the pipe, the table of jobs and the walk; length of the table, bytes of an
entry; 1 to visit the namespaces of all processes.  Light on purpose: it waits as long as the
agent lives, and must not need what the agent has loaded.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.libbpf import call
from hostcc.bpf.loader.netns import in_netns
from hostcc.system.namespaces import all_pids, opened

DISMISSED = b"."
"""Written to the pipe by an agent that has left no mark."""
MAX_READS_PER_WALK = 64
"""Each goes over up to a million sockets."""


def main() -> None:
    """Wait for the end of the agent, and take marks away unless it has done so."""
    pipe, table, walk, length, size, everywhere = map(int, sys.argv[1:])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with the agent, whoever is asked to stop
    if os.read(pipe, 1) != DISMISSED:
        clear(table, walk, length, size, everywhere=bool(everywhere))


def clear(table: int, walk: int, length: int, size: int, *, everywhere: bool) -> None:
    """Take the marks off all sockets, and mark no job from now on."""
    nothing = ctypes.create_string_buffer(size)
    for slot in range(length):
        key = ctypes.c_uint32(slot)
        call("bpf_map_update_elem", table, ctypes.byref(key), nothing, 0, what="cannot clear marks")
    with opened(all_pids() if everywhere else ()) as namespaces:
        for where in namespaces:
            with suppress(BpfError, OSError):  # a namespace that just went has no sockets either
                in_netns(where, lambda: visit(walk))


def visit(walk: int) -> None:
    """Run the walk over all sockets of this thread's namespace."""
    fd = call("bpf_iter_create", walk, what="cannot walk over sockets")
    try:
        for _ in range(MAX_READS_PER_WALK):
            with suppress(BlockingIOError):  # after a million sockets, to be called again
                if not os.read(fd, 1 << 12):
                    return
    finally:
        os.close(fd)


if __name__ == "__main__":
    main()
