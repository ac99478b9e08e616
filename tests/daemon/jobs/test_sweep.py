"""Jobs that have ended are noticed, however many there are."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hostcc.config.sections.job import JobRequest
from hostcc.daemon.jobs.sockets import Job
from hostcc.daemon.jobs.table import JOBS_PER_SWEEP, JOIN_GRACE_S
from hostcc.system.slices import SLICE_S
from tests.daemon.jobs.world import World

pytestmark = pytest.mark.unit


def test_a_group_removed_or_replaced_by_hand_is_noted_and_left(world: World) -> None:
    table = world.agent()
    for name in ("gone", "new"):
        table.register(name, JobRequest(), os.getpid())
        world.tree.path(name).rmdir()
    (world.folder / "hold").mkdir()  # so that the inode number is not reused
    world.tree.path("new").mkdir()
    table.jobs["new"].group_id += 1_000_000
    table.sweep()
    assert table.jobs == {}
    assert world.tree.path("new").is_dir()
    texts = sorted(note.text.rpartition("/")[2] for note in world.journal.notes)
    assert texts == ["gone was removed by somebody else", "new was replaced by somebody else"]


def test_a_sweep_ends_when_its_time_is_over(world: World) -> None:
    table = world.agent()
    for number in range(10):
        table.register(f"n{number}", JobRequest(), os.getpid())
    world.now += JOIN_GRACE_S + 1
    forget = table._forget

    def slow(job: Job) -> None:
        world.now += SLICE_S / 2.5
        forget(job)

    table._forget = slow  # type: ignore[method-assign]
    table.sweep()
    assert len(table.jobs) == 7
    for _ in range(3):
        table.sweep()
    assert table.jobs == {}


def test_a_sweep_is_bounded_but_reaches_everybody(world: World) -> None:
    table = world.agent()
    for number in range(150):
        table.register(f"n{number}", JobRequest(), os.getpid())
    world.now += JOIN_GRACE_S + 1
    table.sweep()
    assert len(table.jobs) == 150 - JOBS_PER_SWEEP
    for _ in range(2 * 150 // JOBS_PER_SWEEP):
        table.sweep()
    assert table.jobs == {}


def test_a_job_is_not_forgotten_by_an_agent_without_descriptors(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.agent()
    table.register("train", JobRequest(), os.getpid())
    world.now += JOIN_GRACE_S + 1

    def full(path: Path) -> bool:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as hungry:
        hungry.setattr(world.tree, "populated", full)
        for _ in range(2):  # it is looked at again each time
            with pytest.raises(OSError, match="Too many open files"):
                table.sweep()
    assert list(table.jobs) == ["train"]
    table.sweep()
    assert table.jobs == {}
