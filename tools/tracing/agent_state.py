"""The state of each job in a running agent's BPF programs, read directly from their maps.

The control socket has the state that changes slowly.  The progress of an iteration changes with
every acknowledgement, so the map itself is read.  It is found by the agent's process, because
several agents may run on one machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.bpf.loader.btf import Btf
from hostcc.bpf.loader.elf import Elf
from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.libbpf import call, lib
from hostcc.bpf.loader.objects import object_path
from hostcc.errors import HostccError
from hostcc.system.seal import unseal

NAME = b"job_states"
CA_PRIVATE = "hcc_ca_priv"
"""The struct that hostcc's congestion controls keep in icsk_ca_priv."""
# struct bpf_map_info: type, id, key_size, value_size, max_entries, map_flags, name.
_INFO = np.dtype(
    {
        "names": ["value_size", "name"],
        "formats": ["u4", "S16"],
        "offsets": [12, 24],
        "itemsize": 88,
    }
)


def object_types() -> Btf:
    """The types of the agent's BPF object.  Raises BpfError."""
    return Btf(Elf(unseal(object_path("mltcp").read_bytes())).bytes_of(".BTF"))


class JobStates:
    """struct hcc_job_state of each slot, of the agent with process id `pid`.

    Raises HostccError when the agent has no such map, or one of another version.
    """

    def __init__(self, pid: int, types: Btf) -> None:
        self._dtype = types.named_dtype("hcc_job_state")
        self._fd = _find(pid, self._dtype.itemsize)

    def close(self) -> None:
        """Close the map."""
        os.close(self._fd)

    def read(self, slot: int) -> Any:
        """The state of a slot, a numpy record; None when there is no such slot."""
        key = ctypes.c_uint32(slot)
        value = np.zeros((), self._dtype)
        result = lib().bpf_map_lookup_elem(self._fd, ctypes.addressof(key), value.ctypes.data)
        if result == -errno.ENOENT:
            return None
        if result < 0:
            raise HostccError(f"cannot read the agent's job states: {os.strerror(-result)}")
        return value[()]


def _find(pid: int, value_size: int) -> int:
    other = 0
    for number in _map_ids(pid):
        try:
            fd = call("bpf_map_get_fd_by_id", number, what="cannot open a map of the agent")
        except BpfError:  # gone meanwhile
            continue
        raw = np.zeros((), _INFO)
        size = ctypes.c_uint32(raw.nbytes)
        lib().bpf_obj_get_info_by_fd(fd, raw.ctypes.data, size)
        if raw["name"].item() == NAME:
            if int(raw["value_size"]) == value_size:
                return fd
            other = int(raw["value_size"])
        os.close(fd)
    if other:
        raise HostccError(
            f"the agent (pid {pid}) is of another version: its job states have {other} bytes, "
            f"expected {value_size}"
        )
    raise HostccError(f"the agent (pid {pid}) has no map {NAME.decode()}: does it only observe?")


def _map_ids(pid: int) -> list[int]:
    """Ids of the BPF maps that a process holds open."""
    found: list[int] = []
    try:
        entries = list(Path(f"/proc/{pid}/fdinfo").iterdir())
    except OSError:  # it is gone
        return found
    for entry in entries:
        try:
            lines = entry.read_text().splitlines()
        except OSError:  # closed meanwhile
            continue
        found += [int(line.split()[1]) for line in lines if line.startswith("map_id:")]
    return list(dict.fromkeys(found))
