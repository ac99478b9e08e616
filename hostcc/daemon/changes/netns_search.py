"""Finds a network namespace by its number, through whatever holds it.

A namespace lives while a process or thread is in it, a descriptor or a bind mount (`ip netns add`)
holds it, or a socket does.  The last is not searched: a namespace that only sockets hold has no
name to enter it by, and ends with them.  Process 1, whose descriptors may not be readable, is taken
to hold only its own namespace, the first one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.netns import in_netns
from hostcc.daemon.changes import places
from hostcc.model import Place
from hostcc.system.namespaces import pid_namespace

FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO: whoever is in it sees every process of the host."""
FIRST_PROCESS = Path("/proc/1")
_ESCAPE = re.compile(r"\\([0-7]{3})")


class NamespaceState(StrEnum):
    """Of a network namespace, as seen from the calling thread."""

    HERE = "here"
    OTHER = "other"
    """Another one, which can be entered."""
    GONE = "gone"
    """Its number is another one's now, or the whole host was searched and nothing holds it."""
    HIDDEN = "hidden"
    """Nothing that can be seen holds it, but not everything can be seen."""


class NamespaceHandle:
    """A network namespace; open, while it is `OTHER`, until `close`."""

    def __init__(self, state: NamespaceState, fd: int = -1) -> None:
        self.state, self.fd = state, fd

    def close(self) -> None:
        """Close its descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def find(wanted: Place) -> NamespaceHandle:
    """Find the network namespace of a place.  Raises OSError."""
    here = places.current()
    if here.net == wanted.net:
        return NamespaceHandle(
            NamespaceState.HERE if here.is_network(wanted) else NamespaceState.GONE
        )
    fd, refused = _held(wanted.net)
    if fd < 0:
        whole = pid_namespace() == FIRST_PID_NAMESPACE and not refused
        return NamespaceHandle(NamespaceState.GONE if whole else NamespaceState.HIDDEN)
    try:
        there = Place(wanted.net, in_netns(fd, places.cookie))
    except BpfError:
        os.close(fd)
        return NamespaceHandle(NamespaceState.HIDDEN)
    if there.is_network(wanted):
        return NamespaceHandle(NamespaceState.OTHER, fd)
    os.close(fd)
    return NamespaceHandle(NamespaceState.GONE)  # its number is another one's


def _held(inode: int) -> tuple[int, bool]:
    """A descriptor of the namespace or -1; whether a process could not be looked at."""
    refused, kind = False, places.NETNS.stat().st_dev
    for path in _names(inode):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            continue
        except OSError as error:
            dead = isinstance(error, ProcessLookupError)
            refused |= not dead and not path.is_relative_to(FIRST_PROCESS)
            continue
        facts = os.fstat(fd)
        if (facts.st_dev, facts.st_ino) == (kind, inode):
            return fd, refused
        os.close(fd)
    return -1, refused


def _names(inode: int) -> Iterator[Path]:
    """Paths that may be the namespace, the cheapest to find first."""
    name, mounts = f"net:[{inode}]", set[str]()
    processes = [Path(one.path) for one in os.scandir("/proc") if one.name.isdigit()]
    for process in processes:
        yield from _links(process / "ns", name, "net")
    for process in processes:
        with suppress(OSError):
            mounted_in = str((process / "ns/mnt").readlink())
            if mounted_in not in mounts:
                mounts.add(mounted_in)
                yield from _mounted(process, name)
    for process in processes:
        for task in _below(process / "task"):
            yield from _links(task / "ns", name, "net")
        yield from _links(process / "fd", name)


def _links(folder: Path, name: str, only: str = "") -> Iterator[Path]:
    for link in [folder / only] if only else _below(folder):
        try:
            if str(link.readlink()) == name:
                yield link
        except PermissionError:
            yield link  # opening it fails, and says that not all is seen
        except OSError:
            continue


def _below(folder: Path) -> list[Path]:
    try:
        return [Path(one.path) for one in os.scandir(folder)]
    except PermissionError:
        return [folder]
    except OSError:
        return []


def _mounted(process: Path, name: str) -> Iterator[Path]:
    """Bind mounts of it, where a process sees them."""
    for line in (process / "mountinfo").read_text(errors="surrogateescape").splitlines():
        left, _, kind = line.partition(" - ")
        fields = left.split()
        if kind.startswith("nsfs ") and len(fields) > 4 and fields[3] == name:
            where = _ESCAPE.sub(lambda m: chr(int(m[1], 8)), fields[4])
            yield process / "root" / where.lstrip("/")
