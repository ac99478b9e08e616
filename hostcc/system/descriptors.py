"""Limits of open descriptors: without one left, an agent must still undo its changes."""

from __future__ import annotations

import errno
import resource
from contextlib import suppress

UNDO_DESCRIPTORS = 4096
"""Descriptors for undoing: one for each network namespace with jobs, pipes, files of /proc."""
NOTHING_TO_LOOK_WITH = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of open(2) that say nothing of the file."""


def allow_more(count: int = UNDO_DESCRIPTORS) -> None:
    """Raise the soft limit by `count`, past the hard one where allowed (CAP_SYS_RESOURCE)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limits in ((soft + count, max(hard, soft + count)), (min(soft + count, hard), hard)):
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            return


def allow_all() -> None:
    """Raise the soft limit to the hard one: the low default is for programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_looked(error: OSError) -> None:
    """Raise an error that says nothing of what was looked at; return for any other.

    Who takes a missing file for the end of a job calls this first: an agent without descriptors
    would otherwise forget jobs that go on.
    """
    if error.errno in NOTHING_TO_LOOK_WITH:
        raise error
