"""Let a lab namespace have a default congestion control that the host restricts.

The kernel refuses a restricted control as a namespace's default (EPERM), and looks at that
only while the default is written.  So the host's list of allowed controls is widened for
those few milliseconds, under a lock that labs share, and put back.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostcc.lab.errors import LabError
from hostcc.lab.state import STATE_DIRECTORY

ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")


@contextmanager
def allowing(control: str) -> Iterator[None]:
    """Within the block, `control` may become any namespace's default.

    Raises LabError when the kernel does not know it.
    """
    with (STATE_DIRECTORY / "allowed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = ALLOWED.read_text().split()
        if control in before:
            yield
            return
        try:
            ALLOWED.write_text(" ".join([*before, control]))
        except OSError as error:
            raise LabError(f"congestion control {control}: {error.strerror}") from error
        try:
            yield
        finally:
            ALLOWED.write_text(" ".join(before))
