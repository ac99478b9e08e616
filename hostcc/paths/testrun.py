"""Run a loaded tc program over one packet without sending it (BPF_PROG_TEST_RUN)."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint32, c_void_p

from hostcc.bpf.libbpf import call


class _Opts(ctypes.Structure):
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


def run(fd: int, packet: bytes, repeat: int = 1) -> tuple[bytes, int, float]:
    """(The packet afterwards, the program's verdict, nanoseconds of a run).  Raises BpfError.

    The program sees what its last run left, when `repeat` is more than one.
    """
    data = ctypes.create_string_buffer(packet, len(packet))
    out = ctypes.create_string_buffer(len(packet) + 256)
    opts = _Opts(
        sz=ctypes.sizeof(_Opts),
        data_in=ctypes.addressof(data),
        data_out=ctypes.addressof(out),
        data_size_in=len(packet),
        data_size_out=len(out),
        repeat=repeat,
    )
    call("bpf_prog_test_run_opts", fd, ctypes.byref(opts), what="cannot run the program")
    return out.raw[: opts.data_size_out], ctypes.c_int32(opts.retval).value, float(opts.duration)
