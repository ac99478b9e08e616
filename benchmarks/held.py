"""Kernel resources of a process: BPF objects and their entries, descriptors, memory.

Programs, maps and links are identified by their ids, so that those of other agents on the same
machine do not count, and so that objects which outlive the process are found later.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from hostcc.bpf.loader.libbpf import lib

HASHES = {1, 5, 9, 10}
"""BPF_MAP_TYPE_HASH, _PERCPU_HASH, _LRU_HASH, _LRU_PERCPU_HASH: maps that can fill up."""
MOST_ENTRIES = 100_000
KINDS = ("prog", "map", "link")


class KernelResources(msgspec.Struct, frozen=True):
    """At one moment."""

    ids: dict[str, tuple[int, ...]]
    """Kind of KINDS -> ids of what its descriptors are for."""
    entries: dict[str, int]
    """Entries of its hash maps: "NAME" -> how many, those of one name together."""
    open_files: int
    threads: int
    resident_bytes: int


def held(pid: int) -> KernelResources:
    """Look.  Raises OSError when the process is gone."""
    base = Path(f"/proc/{pid}")
    found: dict[str, set[int]] = {kind: set() for kind in KINDS}
    hashes = set()
    for fields in _descriptors(base):
        kind = next((k for k in ("link", "map", "prog") if f"{k}_id" in fields), "")
        if kind:
            found[kind].add(int(fields[f"{kind}_id"]))
        if kind == "map" and int(fields["map_type"]) in HASHES:
            hashes.add((int(fields["map_id"]), int(fields["key_size"])))
    entries: dict[str, int] = {}
    for number, key_bytes in sorted(hashes):
        name, count = _entries(number, key_bytes)
        entries[name] = entries.get(name, 0) + count
    pages = int((base / "statm").read_text().split()[1])
    return KernelResources(
        {kind: tuple(sorted(ids)) for kind, ids in found.items()},
        entries,
        sum(1 for _ in (base / "fd").iterdir()),
        sum(1 for _ in (base / "task").iterdir()),
        pages * os.sysconf("SC_PAGE_SIZE"),
    )


def outliving(was: KernelResources) -> list[str]:
    """What of it still exists: "KIND ID"; it may take the kernel some seconds to free it."""
    return [f"{kind} {number}" for kind in KINDS for number in was.ids[kind] if _open(kind, number)]


def _descriptors(base: Path) -> Iterator[dict[str, str]]:
    for entry in (base / "fdinfo").iterdir():
        with suppress(FileNotFoundError, ValueError):  # it was closed meanwhile
            lines = (line.split(":", 1) for line in entry.read_text().splitlines())
            yield {name: value.strip() for name, value in lines}


def _open(kind: str, number: int) -> bool:
    fd = int(getattr(lib(), f"bpf_{kind}_get_fd_by_id")(ctypes.c_uint32(number)))
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def _entries(number: int, key_bytes: int) -> tuple[str, int]:
    """Name and number of entries of a map; 0 when it has just gone."""
    fd = int(lib().bpf_map_get_fd_by_id(number))
    if fd < 0:
        return f"map {number}", 0
    try:
        info, size = ctypes.create_string_buffer(88), ctypes.c_uint32(88)
        lib().bpf_obj_get_info_by_fd(fd, info, size)
        name = info.raw[24:40].rstrip(b"\0").decode(errors="replace")
        key, after = None, ctypes.create_string_buffer(key_bytes)
        for count in range(MOST_ENTRIES):
            if lib().bpf_map_get_next_key(fd, key, after) != 0:
                return name, count
            key = ctypes.create_string_buffer(after.raw, key_bytes)
        return name, MOST_ENTRIES
    finally:
        os.close(fd)
