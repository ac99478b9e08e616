"""Parses files of /proc.  Pure, and ready for anything that a process can put there."""

from __future__ import annotations

import re
from typing import NamedTuple

from hostcc.system.processes import ENVIRON, MAX_CMDLINE, MAX_VALUE

_ESCAPE = re.compile(r"\\([0-7]{3})")
_WANTED = {f"{name}=".encode(): name for name in ENVIRON}
MAX_PATH = 4096
"""Characters of a cgroup path; a longer one counts as absent."""


class Stat(NamedTuple):
    """Fields of /proc/PID/stat."""

    comm: str
    parent: int
    started: int


class Mount(NamedTuple):
    """A cgroup hierarchy and where it is mounted."""

    version: int
    where: str


def stat(raw: bytes) -> Stat | None:
    """Parse /proc/PID/stat: name, parent and start.

    None for malformed text, a kernel thread, and a process that has ended but was not waited for.
    """
    before, _, after = raw.rpartition(b")")
    fields = after.split()
    try:
        parent, started = int(fields[1]), int(fields[19])
    except (IndexError, ValueError):
        return None
    pid, _, comm = before.partition(b"(")
    if parent == 2 or pid.strip() == b"2" or fields[0] in (b"Z", b"X"):
        return None
    return Stat(_text(comm[:64]), parent, started)


def real_uid(raw: bytes) -> int | None:
    """Parse the real user id out of /proc/PID/status."""
    at = raw.find(b"\nUid:")
    fields = raw[at + 5 : at + 80].split() if at >= 0 else []
    return int(fields[0]) if fields and fields[0].isdigit() else None


def cgroups(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """Parse /proc/PID/cgroup: (v2 path, the different v1 paths).

    A path that leads out of our cgroup namespace ("/../x"), or of a group that was removed, is
    left out.
    """
    second, first = "", dict[str, None]()
    for line in raw.split(b"\n"):
        number, _, rest = line.partition(b":")
        controllers, _, path = rest.partition(b":")
        text = _text(path)
        if not text.startswith("/") or text.startswith("/..") or len(text) > MAX_PATH:
            continue
        if text.endswith(" (deleted)"):
            continue
        if number == b"0" and not controllers:
            second = text
        elif text != "/":
            first[text] = None
    return second, tuple(first)


def cmdline(raw: bytes) -> str:
    """Join the arguments of a command line with spaces."""
    return _text(raw[:MAX_CMDLINE].rstrip(b"\0").replace(b"\0", b" "))


def environ(raw: bytes) -> dict[str, str]:
    """Pick the variables of ENVIRON; the first of a name counts, as for getenv."""
    found: dict[str, str] = {}
    for item in raw.split(b"\0"):
        at = item.find(b"=") + 1
        name = _WANTED.get(item[:at]) if at else None
        if name is not None and name not in found and len(item) - at <= MAX_VALUE:
            found[name] = _text(item[at:])
    return found


def mounts(mountinfo: str) -> list[Mount]:
    """List the cgroup hierarchies in /proc/self/mountinfo that are shown from their root on."""
    found = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) > 4 and kind and kind[0] in {"cgroup", "cgroup2"} and fields[3] == "/":
            where = _ESCAPE.sub(lambda m: chr(int(m[1], 8)), fields[4])
            found.append(Mount(2 if kind[0] == "cgroup2" else 1, where))
    return found


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
