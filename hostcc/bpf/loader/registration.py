"""Registers struct_ops with the kernel: by a link, and without one before Linux 6.4.

Without a link the kernel keeps a registration until its map entry is deleted, so the next agent
after a killed one has to find the map that it left and delete that.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hostcc.bpf.loader.errors import system_error
from hostcc.bpf.loader.libbpf import call, lib, listening
from hostcc.bpf.loader.links import ATTACH_STRUCT_OPS, LINK_STRUCT_OPS, BpfLink, LinkInfo, create

MAP_TYPE_STRUCT_OPS = 26
F_LINK = 1 << 13  # BPF_F_LINK
_MAP_INFO = np.dtype(
    {  # struct bpf_map_info
        "names": ["type", "id", "value_size", "map_flags"],
        "formats": ["u4", "u4", "u4", "u4"],
        "offsets": [0, 4, 12, 20],
        "itemsize": 88,
    }
)


class Registration(BpfLink):
    """A registered struct_ops without a link: holds until `close`, even past our death."""

    def __init__(self, map_fd: int, what: str) -> None:
        super().__init__(os.dup(map_fd), what)

    def info(self) -> LinkInfo:
        """Return the map's number; there is no link, so no link's.  BpfError when it is closed."""
        raw = _info(self.fd, self.what)
        return LinkInfo(LINK_STRUCT_OPS, 0, 0, 0, 0, int(raw["id"]))

    def close(self) -> None:
        """Unregister."""
        if self.fd >= 0:
            _unregister(self.fd)
        super().close()


def attach_linked(pointer: int, map_fd: int, kernel_name: str, path: Path) -> BpfLink:
    """Register the struct_ops map `pointer`, made with BPF_F_LINK.  Raises BpfError.

    libbpf 1.1 fills the map and takes that for all; 1.3 goes on and makes the link.  A map
    that was registered before is full already, which is EBUSY.
    """
    what = f"struct_ops {kernel_name}"
    handle, code, log = _libbpf_attach(pointer)
    if not handle and code != errno.EBUSY:
        raise system_error(f"cannot attach {what}", code, log=log, path=path)
    fd = _disown(handle) if handle else map_fd
    if fd != map_fd:
        return BpfLink(fd, what)
    return create(map_fd, 0, ATTACH_STRUCT_OPS, what)


def attach_unlinked(pointer: int, map_fd: int, kernel_name: str, path: Path) -> BpfLink:
    """Register a struct_ops map without a link, in place of a dead process's of the same name.
    Raises BpfError."""
    what = f"struct_ops {kernel_name}"
    handle, code, log = _libbpf_attach(pointer)
    if not handle and code == errno.EEXIST and forget(kernel_name):
        handle, code, log = _libbpf_attach(pointer)
    if not handle:
        raise system_error(f"cannot attach {what}", code, log=log, path=path)
    _disown(handle)
    return Registration(map_fd, what)


def _libbpf_attach(pointer: int) -> tuple[int | None, int, str]:
    with listening() as said:
        ctypes.set_errno(0)
        handle: int | None = lib().bpf_map__attach_struct_ops(pointer)
        return handle, ctypes.get_errno(), "".join(said)


def _disown(handle: int) -> int:
    # The descriptor behind libbpf's link, which is ours to close from here on.
    fd = int(lib().bpf_link__fd(handle))
    lib().bpf_link__disconnect(handle)
    lib().bpf_link__destroy(handle)
    return fd


def forget(kernel_name: str) -> bool:
    """Unregister what a dead process left under this name; False when there was nothing.

    The caller knows that no living process has the name.  Raises BpfError.
    """
    wanted = kernel_name.encode() + b"\0"
    found = False
    for fd in _struct_ops_maps():
        try:
            size = int(_info(fd, "a struct_ops map")["value_size"])
            key, value = np.zeros(1, np.uint32), np.zeros(size, np.uint8)
            read = lib().bpf_map_lookup_elem(fd, key.ctypes.data, value.ctypes.data)
            if read == 0 and wanted in value.tobytes():
                found |= _unregister(fd)
        finally:
            os.close(fd)
    return found


def _struct_ops_maps() -> Iterator[int]:
    # Descriptors of all maps that hold a struct_ops without a link; the caller closes them.
    number = ctypes.c_uint32()
    while lib().bpf_map_get_next_id(number.value, number) == 0:
        fd = int(lib().bpf_map_get_fd_by_id(number.value))
        if fd < 0:  # gone meanwhile
            continue
        info = _info(fd, "a map")
        if info["type"] == MAP_TYPE_STRUCT_OPS and not int(info["map_flags"]) & F_LINK:
            yield fd
        else:
            os.close(fd)


def _info(fd: int, what: str) -> np.void:
    raw = np.zeros(1, _MAP_INFO)
    size = ctypes.c_uint32(raw.nbytes)
    call("bpf_obj_get_info_by_fd", fd, raw.ctypes.data, size, what=f"{what}: no info")
    info: np.void = raw[0]
    return info


def _unregister(fd: int) -> bool:
    key = np.zeros(1, np.uint32)
    result = int(lib().bpf_map_delete_elem(fd, key.ctypes.data))
    return result in {0, -errno.ENOENT}
