"""Programs at a device's ingress and egress that stay when their agent dies.

The receiver of a moved flow has to go on translating whatever happens to its agent, so these
are attachments without a link: tcx where the kernel has it (Linux 6.6), clsact filters
elsewhere.  The next agent finds them by name, takes over their maps and replaces them;
`hostcc rollback` removes them.  Both hand every packet on to the filters of others.  Device
numbers belong to the network namespace of the calling thread.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.libbpf import call, lib
from hostcc.paths import clsact

INGRESS, EGRESS = "ingress", "egress"
_TCX = {INGRESS: 46, EGRESS: 47}  # enum bpf_attach_type
_CLSACT = {INGRESS: clsact.INGRESS, EGRESS: clsact.EGRESS}
_F_BEFORE = 1 << 3
_MAX_PROGRAMS = 64
_INFO_BYTES = 232
_MAP_INFO = np.dtype(
    {
        "names": ["type", "id", "key", "value", "max", "flags", "name"],
        "formats": ["u4", "u4", "u4", "u4", "u4", "u4", "S16"],
        "offsets": [0, 4, 8, 12, 16, 20, 24],
        "itemsize": 88,
    }
)


class Way(StrEnum):
    """Mechanisms of attachment."""

    TCX = "tcx"
    CLSACT = "clsact"


@dataclass(frozen=True)
class Attached:
    """One program at a hook."""

    way: Way
    hook: str
    prog_id: int
    name: str
    handle: int = 0
    """Handle of a clsact filter."""


def attach(fd: int, ifindex: int, hook: str, name: str, way: Way | None = None) -> Way:
    """Attach a loaded program in front of the others; `way` None: tcx if possible, else clsact."""
    if way is not Way.CLSACT:
        try:
            what = f"cannot attach {name} to {hook} of device {ifindex}"
            call("bpf_prog_attach", fd, ifindex, _TCX[hook], _F_BEFORE, what=what)
        except BpfError as error:
            if way is Way.TCX or error.errno not in {errno.EINVAL, errno.EOPNOTSUPP}:
                raise
        else:
            return Way.TCX
    clsact.add_qdisc(ifindex)
    clsact.add_filter(fd, ifindex, _CLSACT[hook], name)
    return Way.CLSACT


def detach(ifindex: int, found: Attached) -> None:
    """Detach one program; does nothing when it is gone.  Raises BpfError."""
    try:
        if found.way is Way.TCX:
            fd = _prog_fd(found.prog_id)
            try:
                call("bpf_prog_detach2", fd, ifindex, _TCX[found.hook], what="cannot detach")
            finally:
                os.close(fd)
        else:
            clsact.remove_filter(ifindex, _CLSACT[found.hook], found.handle)
    except BpfError as error:
        if error.errno not in {errno.ENOENT, errno.ENODEV, errno.EINVAL}:
            raise


def attached(ifindex: int, hook: str, names: Sequence[str]) -> list[Attached]:
    """List programs of these names at a hook, whoever attached them, in the order of running."""
    found = [
        Attached(Way.TCX, hook, number, _prog_name(number)) for number in _query(ifindex, hook)
    ]
    found += _filters(ifindex, hook)
    return [one for one in found if one.name in names]


def map_fds(prog_id: int) -> dict[str, tuple[int, tuple[int, int, int]]]:
    """Open the maps of a program: name -> (descriptor, (key bytes, value bytes, entries)).

    The caller closes the descriptors.
    """
    fd = _prog_fd(prog_id)
    try:
        info = np.zeros(_INFO_BYTES, np.uint8)
        ids = np.zeros(_MAX_PROGRAMS, np.uint32)
        info[52:56].view(np.uint32)[0] = len(ids)
        info[56:64].view(np.uint64)[0] = ids.ctypes.data
        size = ctypes.c_uint32(_INFO_BYTES)
        call("bpf_obj_get_info_by_fd", fd, info.ctypes.data, size, what="program: no info")
        count = int(info[52:56].view(np.uint32)[0])
    finally:
        os.close(fd)
    made = {}
    for number in ids[:count].tolist():
        map_fd = call("bpf_map_get_fd_by_id", number, what=f"cannot open map {number}")
        row = np.zeros((), _MAP_INFO)
        size = ctypes.c_uint32(row.nbytes)
        call("bpf_obj_get_info_by_fd", map_fd, row.ctypes.data, size, what="map: no info")
        shape = (int(row["key"]), int(row["value"]), int(row["max"]))
        made[row["name"].item().decode()] = (map_fd, shape)
    return made


def _query(ifindex: int, hook: str) -> list[int]:
    ids = (ctypes.c_uint32 * _MAX_PROGRAMS)()
    count = ctypes.c_uint32(_MAX_PROGRAMS)
    result = lib().bpf_prog_query(ifindex, _TCX[hook], 0, None, ids, ctypes.byref(count))
    return list(ids[: count.value]) if result == 0 else []


def _prog_fd(prog_id: int) -> int:
    return call("bpf_prog_get_fd_by_id", prog_id, what=f"cannot open program {prog_id}")


def _prog_name(prog_id: int) -> str:
    try:
        fd = _prog_fd(prog_id)
    except BpfError:
        return ""
    try:
        info = np.zeros(_INFO_BYTES, np.uint8)
        size = ctypes.c_uint32(_INFO_BYTES)
        call("bpf_obj_get_info_by_fd", fd, info.ctypes.data, size, what="program: no info")
        return info[64:80].tobytes().rstrip(b"\0").decode(errors="replace")
    finally:
        os.close(fd)


def _filters(ifindex: int, hook: str) -> list[Attached]:
    return [
        Attached(Way.CLSACT, hook, number, _prog_name(number), handle)
        for handle, number in clsact.filters(ifindex, _CLSACT[hook])
    ]
