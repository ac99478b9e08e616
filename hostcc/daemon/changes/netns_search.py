"""Where a network namespace can be entered: by whatever holds it that this process may look at.

A namespace lives while a process or thread is in it, a descriptor or a bind mount (`ip netns add`)
holds it, or a socket does.  The last is not looked for: such a one has no name to enter it by, and
ends with its sockets.  Process 1, which holds more than we may have rights to look at, is taken to
hold nothing but its own namespace, the first one.
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

FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO: whoever is in it sees every process of the host."""
FIRST_PROCESS = Path("/proc/1")
_ESCAPE = re.compile(r"\\([0-7]{3})")


class State(StrEnum):
    """Of a namespace, as seen from here."""

    HERE = "here"
    OTHER = "other"
    """Another one, which can be entered."""
    GONE = "gone"
    """Another one has its number, or all of this host was looked at and nothing holds it."""
    HIDDEN = "hidden"
    """Nothing that is seen from here holds it, which may be because not all is seen."""


class Found:
    """A namespace, held open while it is `OTHER` until `close`."""

    def __init__(self, state: State, fd: int = -1) -> None:
        self.state, self.fd = state, fd

    def close(self) -> None:
        """Let go of it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def find(wanted: Place) -> Found:
    """Look for the network namespace of a place.  Raises OSError."""
    here = places.current()
    if here.net == wanted.net:
        return Found(State.HERE if here.is_network(wanted) else State.GONE)
    fd, refused = _held(wanted.net)
    if fd < 0:
        whole = Path("/proc/self/ns/pid").stat().st_ino == FIRST_PID_NAMESPACE and not refused
        return Found(State.GONE if whole else State.HIDDEN)
    try:
        there = Place(wanted.net, in_netns(fd, places.cookie))
    except BpfError:
        os.close(fd)
        return Found(State.HIDDEN)
    if there.is_network(wanted):
        return Found(State.OTHER, fd)
    os.close(fd)
    return Found(State.GONE)  # its number is another one's


def _held(inode: int) -> tuple[int, bool]:
    """A descriptor of the namespace or -1; whether somebody could not be looked at."""
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
    """Whatever may be the namespace: nearest first, and nothing that is another one."""
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
