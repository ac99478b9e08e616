"""`python -m benchmarks.collide`: make the first two jobs of the calling lab collide.

Interleaved jobs stay interleaved under any congestion control until something disturbs them.
This disturbs them: the first job is stopped while it computes, and continues when the second
begins to send.  From then on both communicate at the same time, as at the common start.

It serves as a scenario's action: the lab is the one whose process is this one's parent.  It
gives up after some seconds, with exit status 1 and one line.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hostcc.lab import cgroup, state

WORKER = b"hostcc.lab.worker"
SENDERS = ("h1", "h3")
"""Rank 0 of the first two jobs, where jobs have two hosts."""
PATIENCE_S = 10.0
SILENCE_S = 0.02
STEP_S = 0.001
STEP_BYTES = 10_000
"""More than acknowledgements and probes send within a step."""


class GaveUpError(Exception):
    """The jobs did not do what was waited for."""


def main() -> int:
    """Collide them."""
    try:
        first, second = (worker_of(lab_of(os.getppid()), host) for host in SENDERS)
        _wait_silent(first)
        os.kill(first, signal.SIGSTOP)
        try:
            _wait_silent(second)
            _wait(lambda sent, before: sent - before > STEP_BYTES, second)
        finally:
            os.kill(first, signal.SIGCONT)
    except (GaveUpError, OSError) as error:
        print(f"collide: {error}", file=sys.stderr)
        return 1
    return 0


def lab_of(pid: int) -> state.LabState:
    """The lab that a process runs."""
    for found in state.recorded():
        if found.pid == pid:
            return found
    raise GaveUpError(f"process {pid} runs no lab")


def worker_of(lab: state.LabState, host: str) -> int:
    """The process of the built-in job on a host."""
    for pid in cgroup.processes(lab.host_cgroup(host)):
        if WORKER in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    raise GaveUpError(f"{host} runs no built-in job")


def sent_bytes(text: str, device: str = "eth0") -> int:
    """What a device has sent, from the text of /proc/net/dev."""
    for line in text.splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == device:
            return int(counters.split()[8])
    raise GaveUpError(f"no device {device}")


def _wait_silent(pid: int) -> None:
    """Until its host has sent next to nothing for a while."""
    quiet_since = time.monotonic()

    def silent(sent: int, before: int) -> bool:
        nonlocal quiet_since
        if sent - before > STEP_BYTES // 10:
            quiet_since = time.monotonic()
        return time.monotonic() - quiet_since > SILENCE_S

    _wait(silent, pid)


def _wait(condition: Callable[[int, int], bool], pid: int) -> None:
    """Until a condition on bytes sent now and a step ago holds."""
    counters = Path(f"/proc/{pid}/net/dev")
    deadline = time.monotonic() + PATIENCE_S
    before = sent_bytes(counters.read_text())
    while time.monotonic() < deadline:
        time.sleep(STEP_S)
        sent = sent_bytes(counters.read_text())
        if condition(sent, before):
            return
        before = sent
    raise GaveUpError(f"process {pid}: nothing to collide with within {PATIENCE_S:g} s")


if __name__ == "__main__":
    sys.exit(main())
