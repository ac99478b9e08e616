"""In the guest: waiting that lasts as long as something moves, and not for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

STILL_S, POLL_S, TELL_S = 60.0, 0.05, 5.0
STILL_LOOKS = 10
"""The clock of a guest that rests leaps where the host is busy: within one leap nobody had a
chance."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
Found = TypeVar("Found")


def until(
    done: Callable[[], Found],
    progress: Callable[[], float],
    what: str,
    most: float = 1e5,
    every_s: float = POLL_S,
) -> Found:
    """What `done` returned when that was true; it is called every `every_s` seconds.

    AssertionError when `progress`, a count, stood still for STILL_S seconds and STILL_LOOKS looks,
    or grew by more than `most`: what should have happened had its chance.  Tells the host that it
    goes on.
    """
    began = count = progress()
    moved = told = time.monotonic()
    looks = 0
    while not (found := done()):
        now, before, count = time.monotonic(), count, progress()
        looks += 1
        if count != before:
            moved, looks = now, 0
            if now - told > TELL_S:
                told = now
                print(f"{what}: {count - began:g}", flush=True)
        assert count - began <= most, f"{what}: not after {count - began:g}"
        moves = now - moved < STILL_S or looks < STILL_LOOKS
        assert moves, f"{what}: nothing moves after {count - began:g}"
        time.sleep(every_s)
    return found


def worked_s(pids: Sequence[int]) -> float:
    """Seconds of processor time that these processes have used, without those that are gone."""
    total = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return total


def listens(port: int) -> bool:
    """Whether a process waits for connections to this TCP port of this host."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    rows += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    return any(row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port for row in rows)
