"""Where processes are in their bursts, out of files that anybody may have written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostcc.verbs import plan_region
from hostcc.verbs.burst_states import BurstState, Phase, open_bursts
from hostcc.verbs.plan_region import CountsEntry

pytestmark = pytest.mark.unit
PID = 4711


def written(folder: Path, **more: int) -> Path:
    head = {"magic": plan_region.MAGIC, "version": plan_region.VERSION}
    (folder / f"qp.{PID}").write_bytes(bytes(CountsEntry(**{**head, **more})))
    return folder / f"qp.{PID}"


def test_a_process_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, burst=4000 | Phase.HELD, bursts=7, holds=3, held_ns=99)
    file = open_bursts(path)
    assert file is not None
    assert file.uid == os.getuid()
    assert file.read() == BurstState(Phase.HELD, 4000, 7, 3, 99)
    assert file.is_current()
    path.unlink()
    assert not file.is_current()
    assert file.read() == BurstState(Phase.HELD, 4000, 7, 3, 99)
    file.close()


def test_what_is_no_state_is_none(tmp_path: Path) -> None:
    """A phase that there is none of; a file that its owner has cut short."""
    file = open_bursts(written(tmp_path, burst=4003))
    assert file is not None
    assert file.read() is None
    os.truncate(tmp_path / f"qp.{PID}", 100)
    assert file.read() is None
    file.close()


def test_what_is_no_file_of_counters_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / f"qp.{PID}"
    assert open_bursts(path) is None
    path.write_bytes(b"")
    assert open_bursts(path) is None
    path.unlink()
    os.mkfifo(path)
    assert open_bursts(path) is None
    path.unlink()
    written(tmp_path, version=plan_region.VERSION - 1)
    assert open_bursts(path) is None
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert open_bursts(path) is None
