"""Whose queue pairs are believed in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostcc.rdma.pairs import Senders
from tests.rdma.world import HERE, THERE, Fixed, World

pytestmark = pytest.mark.unit


def test_where_a_pair_goes(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.process("train").count(1000, 50000, 0x68)
    (sender,) = Senders(tmp_path / "qp", lambda: Fixed(world.owners), world.sysfs).read()
    assert (sender.job, sender.pid, sender.bytes) == ("train", os.getpid(), 1000)
    (pair,) = sender.pairs
    assert (pair.source, pair.destination) == (HERE, THERE)
    assert (pair.device, pair.port, pair.traffic_class) == ("mlx5_0", 50000, 0x68)


def test_who_is_not_believed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.process("train")
    senders = Senders(tmp_path / "qp", lambda: Fixed(world.owners), world.sysfs)
    assert senders.read()
    world.owners[os.getpid()] = "another"  # it says that it is of a job that it is not of
    assert not senders.read()
    world.owners[os.getpid()] = "train"
    proc = tmp_path / "proc"
    (proc / str(os.getpid())).mkdir(parents=True)
    os.chown(proc / str(os.getpid()), os.getuid(), os.getgid())
    fixed = Fixed(world.owners)
    assert Senders(tmp_path / "qp", lambda: fixed, world.sysfs, proc).read()
    (proc / str(os.getpid())).rmdir()  # nobody of that number
    assert not Senders(tmp_path / "qp", lambda: fixed, world.sysfs, proc).read()


def test_odd_devices_lead_nowhere(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.process("train", device="../../etc")
    senders = Senders(tmp_path / "qp", lambda: Fixed(world.owners), world.sysfs)
    assert senders.read()[0].pairs == ()
    world.process("train", device="mlx5_9")
    assert senders.read()[0].pairs[0].source == ""
