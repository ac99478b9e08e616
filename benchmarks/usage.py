"""CPU time and memory of a process, and the load of the rest of the machine."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Reading:
    """Counters at one moment."""

    at_s: float
    """CLOCK_MONOTONIC."""
    process_s: float
    """CPU time of the process, user and system."""
    busy_s: float
    """CPU time of the whole machine that was not idle."""
    stolen_s: float
    """CPU time that the hypervisor gave to others."""
    resident_bytes: int


@dataclass(frozen=True)
class Use:
    """Between two readings; per cent of one CPU."""

    process_percent: float
    others_percent: float
    stolen_percent: float


def read(pid: int) -> Reading:
    """Read the counters; raises OSError when the process is gone."""
    base = Path(f"/proc/{pid}")
    process_s = time.clock_gettime(cpu_clock(pid))
    busy_s, stolen_s = machine_seconds(Path("/proc/stat").read_text())
    pages = int((base / "statm").read_text().split()[1])
    return Reading(time.monotonic(), process_s, busy_s, stolen_s, pages * PAGE_BYTES)


def between(first: Reading, last: Reading) -> Use:
    """What was used in the time between."""
    seconds = last.at_s - first.at_s
    process_s = last.process_s - first.process_s
    return Use(
        100 * process_s / seconds,
        100 * max(0.0, last.busy_s - first.busy_s - process_s) / seconds,
        100 * (last.stolen_s - first.stolen_s) / seconds,
    )


def cpu_clock(pid: int) -> int:
    """The clock of a process's CPU time, all threads, in nanoseconds.

    clock_getcpuclockid(3): /proc/PID/stat counts in hundredths of a second, in which an agent
    that wakes for some microseconds does not show.
    """
    scheduler_clock = 2  # CPUCLOCK_SCHED
    return (~pid << 3) | scheduler_clock


def machine_seconds(stat: str) -> tuple[float, float]:
    """Busy and stolen CPU time out of the text of /proc/stat."""
    user, nice, system, _idle, _wait, interrupts, soft, steal = (
        int(word) for word in stat.split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + interrupts + soft) / TICKS_PER_S, steal / TICKS_PER_S
