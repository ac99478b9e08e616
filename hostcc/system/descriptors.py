"""How many descriptors this process may have: without one left it can still undo what it did."""

from __future__ import annotations

import resource
from contextlib import suppress

MORE = 4096
"""Undoing takes one for each network namespace with jobs, pipes of commands, files of /proc."""


def allow_more(count: int = MORE) -> None:
    """So many more than now; past the hard limit, where that may be (CAP_SYS_RESOURCE)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limits in ((soft + count, max(hard, soft + count)), (min(soft + count, hard), hard)):
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            return


def allow_all() -> None:
    """As many as the hard limit says: the soft one is for programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
