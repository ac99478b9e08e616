"""Features of this kernel, tried rather than deduced from its version."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hostcc.system.netlink import with_pyroute2

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
_BPF_FS_MAGIC = 0xCAFE4A11
_PROG_TYPES = {"sched_cls": 3, "sock_ops": 13, "cgroup_sock_addr": 18, "tracing": 26}


def in_new_netns(function: Callable[[], T]) -> T:
    """What `function` returns in a network namespace made for it.  Raises OSError."""
    result: list[T] = []
    failure: list[OSError] = []

    def body() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            if libc.unshare(CLONE_NEWNET):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            result.append(function())
        except OSError as error:
            failure.append(error)

    thread = threading.Thread(target=body, name="new-netns")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def add_clsact(ifindex: int = 1) -> None:
    """Add a clsact qdisc to an interface of the current namespace (1: lo).  Raises OSError."""
    with_pyroute2(lambda ip: ip.tc("add", "clsact", ifindex))


def program_type(name: str) -> bool:
    """Whether this kernel loads BPF programs of a type.  Raises OSError without libbpf."""
    lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
    return bool(lib.libbpf_probe_bpf_prog_type(_PROG_TYPES[name], None) == 1)


def libbpf_version() -> str:
    """The version of the shared library.  Raises OSError when it is not there."""
    lib = ctypes.CDLL("libbpf.so.1")
    lib.libbpf_version_string.restype = ctypes.c_char_p
    return str(lib.libbpf_version_string().decode())


def try_cgroup(root: Path) -> None:
    """Make a cgroup and remove it.  Raises OSError."""
    path = root / f"hostcc-doctor-{uuid.uuid4().hex[:8]}"
    path.mkdir()
    try:
        (path / "cgroup.procs").read_text()
    finally:
        path.rmdir()


def bpffs_mounted(path: Path) -> bool:
    """Whether a BPF file system is mounted there."""
    buffer = ctypes.create_string_buffer(256)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statfs(os.fsencode(path), buffer):
        return False
    return bool(struct.unpack_from("l", buffer.raw)[0] & 0xFFFFFFFF == _BPF_FS_MAGIC)


def congestion_controls() -> list[str]:
    """The congestion controls that the kernel has loaded."""
    with contextlib.suppress(OSError):
        text = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text()
        return sorted(text.split())
    return []
