"""net.ipv4.ip_local_reserved_ports of the calling thread's network namespace.

The kernel never gives a reserved port out by itself, so ports on the wire stay nobody's own; a
bind that names one still works, and ends its use on the wire (STEER_COLLISION).
"""

from __future__ import annotations

from pathlib import Path

from hostcc.errors import HostccError
from hostcc.paths import choose, sockdiag

SYSCTL = Path("/proc/sys/net/ipv4/ip_local_reserved_ports")


def read() -> str:
    """Read the present value.  Raises HostccError."""
    try:
        return SYSCTL.read_text().strip()
    except OSError as error:
        raise HostccError(f"{SYSCTL}: {error.strerror}") from None


def write(text: str) -> None:
    """Set the value.  Raises HostccError."""
    try:
        SYSCTL.write_text(text + "\n")
    except OSError as error:
        raise HostccError(f"{SYSCTL}: {error.strerror}") from None


def planned(first: int, last: int) -> tuple[str, str]:
    """Return (present value, wanted value) for a Change; writes nothing.  Raises HostccError."""
    now = read()
    return now, choose.reserved(now, first, last)


def in_use(first: int, last: int) -> set[int]:
    """List ports of the range that sockets have already: they must not be used on the wire."""
    return sockdiag.local_ports(first, last)
