"""Cgroups that belong to others are followed and left alone."""

from __future__ import annotations

import asyncio

import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.mltcp.params import Mode
from hostcc.system.slices import at_once
from tests.daemon.jobs.world import World
from tests.fakes import FakeSocket

pytestmark = pytest.mark.unit


def test_cgroups_of_others_are_followed_and_left_alone(world: World) -> None:
    table = world.agent()
    one, two = world.folder / "cg" / "slurm-1", world.folder / "cg" / "slurm-2"
    for group in (one, two):
        group.mkdir()
    table.follow("slurm:7", [one, two], "slurm: cgroup /slurm-1")
    job = table.jobs["slurm:7"]
    assert world.backend.groups == {job.slot: [one, two]}
    assert job.slot in world.backend.jobs
    assert {"job-followed:slurm:7", "job-sockets:slurm:7"} <= set(world.active())
    sock = FakeSocket(cgroup_id=world.tree.identity(two))
    world.backend.sockets.append(sock)
    table.share(Mode.MLTCP, {}, "test")
    assert sock.ca.startswith("hcc_")
    one.rmdir()
    table.sweep()
    assert world.backend.groups == {job.slot: [two]}
    table.follow("slurm:7", [], "no longer found")
    assert (table.jobs, world.backend.groups) == ({}, {})
    assert world.active() == ["cgroup", "mode"]
    asyncio.run(table.moved())
    assert sock.ca == "cubic"  # its process may live on
    assert two.is_dir()


def test_a_job_of_which_no_cgroup_is_left_is_not_kept(world: World) -> None:
    table = world.agent()
    table.follow("gone", [world.folder / "cg" / "no-such"], "test")
    assert table.jobs == {}
    group = world.folder / "cg" / "refused"
    group.mkdir()
    world.backend.fail = {"attach_cgroup"}
    with pytest.raises(BpfError):
        table.follow("refused", [group], "test")
    assert (table.jobs, world.active()) == ({}, ["cgroup"])


def test_release_gives_back_what_is_followed(world: World) -> None:
    table = world.agent()
    group = world.folder / "cg" / "theirs"
    group.mkdir()
    table.follow("found", [group], "test")
    sock = FakeSocket(cgroup_id=world.tree.identity(group))
    world.backend.sockets.append(sock)
    table.share(Mode.MLTCP, {}, "test")
    assert at_once(table.releasing("rolled back")) == []
    assert (sock.ca, world.backend.groups, world.active()) == ("cubic", {}, [])
    assert group.is_dir()
