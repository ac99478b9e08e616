"""Reads how often the kernel ran our programs and how long it took."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from hostcc.bpf.loader.libbpf import call

STATS_RUN_TIME = 0  # enum bpf_stats_type
_PROG_INFO = np.dtype(
    {  # struct bpf_prog_info
        "names": ["id", "jited_len", "run_time_ns", "run_cnt", "verified_insns"],
        "formats": ["u4", "u4", "u8", "u8", "u4"],
        "offsets": [4, 16, 192, 200, 216],
        "itemsize": 232,
    }
)
PROGRAM_STATS = np.dtype(
    [
        ("name", "U64"), ("run_cnt", "u8"), ("run_time_ns", "u8"), ("jited_bytes", "u4"),
        ("verified_instructions", "u4"),
    ]
)  # fmt: skip
"""One row per loaded program; counts stay 0 unless `enable` is, or was, in force.

`verified_instructions`: how many the verifier went through, all branches together (Linux 5.16)."""


@contextmanager
def enable() -> Iterator[None]:
    """Have the kernel count runs and run time of all BPF programs (BPF_ENABLE_STATS).

    Costs some 20 ns per run, so only while measuring.  Raises BpfError.
    """
    fd = call("bpf_enable_stats", STATS_RUN_TIME, what="cannot enable BPF statistics")
    try:
        yield
    finally:
        os.close(fd)


def read(name: str, fd: int) -> tuple[str, int, int, int, int]:
    """Read a row of PROGRAM_STATS for the program with descriptor `fd`."""
    raw = np.zeros((), _PROG_INFO)
    size = ctypes.c_uint32(raw.nbytes)
    call("bpf_obj_get_info_by_fd", fd, raw.ctypes.data, size, what=f"program {name}: no info")
    runs, time_ns, jited, verified = (
        int(raw[key]) for key in ("run_cnt", "run_time_ns", "jited_len", "verified_insns")
    )
    return name, runs, time_ns, jited, verified
