"""Run counts are counted while they are asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostcc.bpf.loader import stats
from hostcc.bpf.loader.object import BpfObject
from tests.bpf.traffic import connect_in

pytestmark = pytest.mark.kernel


def test_runs_are_counted(loaded: BpfObject, cgroup: Path) -> None:
    fd = os.open(cgroup, os.O_RDONLY)
    with loaded.attach_cgroup("on_socket", fd):
        with stats.enable():
            connect_in(cgroup)
        counted = {row["name"]: row for row in loaded.program_stats()}
    os.close(fd)
    assert set(counted) == set(loaded.programs())
    assert counted["on_socket"]["run_cnt"] > 0
    assert counted["on_socket"]["run_time_ns"] > 0
    assert counted["on_socket"]["jited_bytes"] > 0
    assert counted["dump_sockets"]["run_cnt"] == 0
