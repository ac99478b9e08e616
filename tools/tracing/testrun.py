"""Run a loaded program once, on demand, with input of our choice (BPF_PROG_TEST_RUN)."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint32, c_void_p

import numpy as np

from hostcc.bpf.loader.errors import system_error
from hostcc.bpf.loader.libbpf import lib


class RunOptions(ctypes.Structure):
    """struct bpf_test_run_opts of libbpf 1.1."""

    _fields_ = [
        ("sz", c_size_t),
        ("data_in", c_void_p),
        ("data_out", c_void_p),
        ("data_size_in", c_uint32),
        ("data_size_out", c_uint32),
        ("ctx_in", c_void_p),
        ("ctx_out", c_void_p),
        ("ctx_size_in", c_uint32),
        ("ctx_size_out", c_uint32),
        ("retval", c_uint32),
        ("repeat", c_int),
        ("duration", c_uint32),
        ("flags", c_uint32),
        ("cpu", c_uint32),
        ("batch_size", c_uint32),
    ]


def run_raw_tracepoint(program: int, arguments: list[int]) -> None:
    """Run the program with this descriptor; BpfError when the kernel refuses (before 5.10)."""
    values = np.array([*arguments, *([0] * (12 - len(arguments)))], dtype=np.uint64)
    options = RunOptions()
    options.sz = ctypes.sizeof(RunOptions)
    options.ctx_in = values.ctypes.data
    options.ctx_size_in = values.nbytes
    result = lib().bpf_prog_test_run_opts(program, ctypes.byref(options))
    if result < 0:
        raise system_error("cannot run a tracing program", -result)
