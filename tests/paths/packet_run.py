"""Run a loaded tc program once on a packet (BPF_PROG_TEST_RUN)."""

from __future__ import annotations

import ctypes

from hostcc.bpf.loader.libbpf import call
from tools.tracing.testrun import RunOptions


def run_packet(fd: int, packet: bytes) -> tuple[bytes, int]:
    """(The packet afterwards, the program's verdict).  Raises BpfError."""
    data = ctypes.create_string_buffer(packet, len(packet))
    out = ctypes.create_string_buffer(len(packet) + 256)
    options = RunOptions(
        sz=ctypes.sizeof(RunOptions),
        data_in=ctypes.addressof(data),
        data_out=ctypes.addressof(out),
        data_size_in=len(packet),
        data_size_out=len(out),
        repeat=1,
    )
    call("bpf_prog_test_run_opts", fd, ctypes.byref(options), what="cannot run the program")
    return out.raw[: options.data_size_out], ctypes.c_int32(options.retval).value
