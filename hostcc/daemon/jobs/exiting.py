"""Waiting for cgroups whose processes have been killed but have not ended.

A process that closes thousands of sockets takes seconds to end.  Meanwhile it cannot be moved,
/proc no longer shows it among the cgroup's processes, and the cgroup cannot be removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from hostcc.system.cgroups import CgroupTree

MAX_WAIT_WITHOUT_PROGRESS_S = 10.0
"""Seconds without progress after which waiting ends."""
MAX_WAIT_S = 45.0
"""Seconds of waiting altogether: service managers wait 90."""
POLL_INTERVAL_S = 0.02
_SOCKETS = Path("/proc/net/sockstat")


def wait(
    tree: CgroupTree,
    groups: Iterable[Path],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    sockets: Callable[[], int] | None = None,
) -> list[Path]:
    """Wait for the cgroups whose processes are all exiting; returns those that have not ended.

    `sockets`: counts the sockets of this network namespace.  Fewer sockets are progress, as fewer
    cgroups are.
    """
    count = sockets or _count
    began = since = clock()
    left = [path for path in groups if tree.ending(path)]
    best = (len(left), count())
    while left:
        now = clock()
        if now - since > MAX_WAIT_WITHOUT_PROGRESS_S or now - began > MAX_WAIT_S:
            break
        sleep(POLL_INTERVAL_S)
        left = [path for path in left if tree.ending(path)]
        found = (len(left), count())
        if found < best:
            best, since = found, now
    return left


def _count() -> int:
    """Sockets of this network namespace; 0 where the kernel does not show them."""
    try:
        words = _SOCKETS.read_text().split()[:3]
    except OSError:
        return 0
    return int(words[2]) if words[:2] == ["sockets:", "used"] and words[2].isdecimal() else 0
