"""The shim in programs that it has nothing to do with: it must not be noticed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hostcc.system.cc import build
from hostcc.verbs.build import SHIM, VERBS_HEADER

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
]

LOOKUPS = """
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1", mode=ctypes.RTLD_LOCAL)
libc = ctypes.CDLL(None)
libc.dlvsym.restype = libc.dlopen.restype = ctypes.c_void_p
libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
handle = ctypes.c_void_p(verbs._handle)
def where(name, version):
    at = libc.dlvsym(handle, name, version)
    if not at:
        return None
    for line in open("/proc/self/maps"):
        low, high = (int(word, 16) for word in line.split()[0].split("-"))
        if low <= at < high:
            return line.split()[-1].rpartition("/")[2].partition(".so")[0]
print(where(b"ibv_modify_qp", b"IBVERBS_1.1"), where(b"ibv_destroy_qp", b"IBVERBS_1.1"),
      where(b"ibv_close_device", b"IBVERBS_1.1"), where(b"ibv_query_qp", b"IBVERBS_1.1"),
      where(b"ibv_query_port", b"IBVERBS_1.1"), where(b"ibv_modify_qp", b"NO_SUCH"))
"""


def preloaded(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    build(SHIM)
    env = {**os.environ, "LD_PRELOAD": str(SHIM.target), "HOSTCC_JOB": "job", **more}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_any_program_runs() -> None:
    for words in (("true",), ("sh", "-c", "ls / | wc -l"), (sys.executable, "-c", "print(1)")):
        done = preloaded(*words)
        assert (done.returncode, done.stderr) == (0, "")


def test_who_asks_libibverbs_by_name_gets_the_shims() -> None:
    """NCCL loads libibverbs itself and looks its functions up by version."""
    done = preloaded(sys.executable, "-c", LOOKUPS)
    assert done.stdout.split() == [*["libhostcc-rdma"] * 4, "libibverbs", "None"], done


def test_it_needs_nothing_and_shows_nothing() -> None:
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", str(SHIM.target)], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[2] for line in shown.splitlines()}
    assert names == {
        "ibv_modify_qp", "ibv_query_qp", "ibv_destroy_qp", "ibv_close_device", "dlvsym",
        "hcc_plan_layout",
    }  # fmt: skip
    needed = subprocess.run(
        ["readelf", "-d", str(SHIM.target)], capture_output=True, text=True, check=True
    ).stdout
    assert "libibverbs" not in needed
