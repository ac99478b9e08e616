"""Waiting for cgroups whose processes have been killed but have not ended.

One that closes thousands of sockets takes its time.  It can no longer be moved, /proc shows it no
more among the group's processes, and the group cannot be removed until it is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from hostcc.system.cgroups import CgroupTree

PATIENCE_S = 10.0
"""Without progress, seconds."""
MOST_S = 45.0
"""Altogether, seconds: service managers wait 90."""
POLL_S = 0.02
_SOCKETS = Path("/proc/net/sockstat")


def wait(
    tree: CgroupTree,
    groups: Iterable[Path],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    sockets: Callable[[], int] | None = None,
) -> list[Path]:
    """Until all of these groups have ended that only wait for that; those that have not.

    `sockets`: how many there are here; fewer than before are progress, as a group less is.
    """
    count = sockets or _count
    began = since = clock()
    left = [path for path in groups if tree.ending(path)]
    best = (len(left), count())
    while left:
        now = clock()
        if now - since > PATIENCE_S or now - began > MOST_S:
            break
        sleep(POLL_S)
        left = [path for path in left if tree.ending(path)]
        found = (len(left), count())
        if found < best:
            best, since = found, now
    return left


def _count() -> int:
    """Sockets of this network namespace; 0 where it does not say."""
    try:
        words = _SOCKETS.read_text().split()[:3]
    except OSError:
        return 0
    return int(words[2]) if words[:2] == ["sockets:", "used"] and words[2].isdecimal() else 0
