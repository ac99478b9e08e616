"""Where a change is made: the network namespace, the mount namespace and the directory."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from hostcc.model import Place

NETNS = Path("/proc/thread-self/ns/net")
"""Of the calling thread, which may be in another one than its process."""
DEVICES = Path("/sys/class/net")
"""Of the network namespace in which this sysfs was mounted."""
MNTNS = Path("/proc/self/ns/mnt")
SO_NETNS_COOKIE = 71
"""Linux 5.14 and newer."""


def current() -> Place:
    """Read the place of the calling thread.  Raises OSError."""
    return Place(NETNS.stat().st_ino, cookie(), MNTNS.stat().st_ino)


def cookie() -> int:
    """Read the cookie of the calling thread's network namespace; 0 where the kernel has none."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
            raw = any_socket.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8)
    except OSError:
        return 0
    return int.from_bytes(raw, sys.byteorder)


def folder_of(target: str) -> tuple[int, int] | None:
    """Device and inode of a path's parent directory; of /sys/class/net for what is no path.

    None: there is no such directory.
    """
    try:
        found = (Path(target).parent if target.startswith("/") else DEVICES).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
