"""Run a loaded program once, on demand, with input of our choice (BPF_PROG_TEST_RUN)."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint32, c_void_p

import numpy as np

from hostcc.bpf.loader.errors import system_error
from hostcc.bpf.loader.libbpf import call, lib


class _Options(ctypes.Structure):
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
    options = _Options()
    options.sz = ctypes.sizeof(_Options)
    options.ctx_in = values.ctypes.data
    options.ctx_size_in = values.nbytes
    result = lib().bpf_prog_test_run_opts(program, ctypes.byref(options))
    if result < 0:
        raise system_error("cannot run a tracing program", -result)


def run_packet(fd: int, packet: bytes, repeat: int = 1) -> tuple[bytes, int, float]:
    """(The packet afterwards, the program's verdict, nanoseconds of a run).  Raises BpfError.

    The program sees what its last run left, when `repeat` is more than one.
    """
    data = ctypes.create_string_buffer(packet, len(packet))
    out = ctypes.create_string_buffer(len(packet) + 256)
    options = _Options(
        sz=ctypes.sizeof(_Options),
        data_in=ctypes.addressof(data),
        data_out=ctypes.addressof(out),
        data_size_in=len(packet),
        data_size_out=len(out),
        repeat=repeat,
    )
    call("bpf_prog_test_run_opts", fd, ctypes.byref(options), what="cannot run the program")
    return (
        out.raw[: options.data_size_out],
        ctypes.c_int32(options.retval).value,
        float(options.duration),
    )
