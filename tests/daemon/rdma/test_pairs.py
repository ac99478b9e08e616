"""Whose queue pairs are believed in."""

from __future__ import annotations

import ctypes
import os
import random
from pathlib import Path

import numpy as np
import pytest

from hostcc.coord.core.payloads import encode
from hostcc.daemon.gossip.rdma_profiles import merged
from hostcc.daemon.rdma import queue_pair_records
from hostcc.daemon.rdma.pairs import Senders
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute, view
from hostcc.daemon.rdma.rates import Rates
from hostcc.daemon.steering import rdma_flows
from hostcc.schedule.plan import plan as scheduled
from hostcc.verbs import plan_region, process_counts
from tests.daemon.rdma.world import HERE, THERE, Fixed, World

pytestmark = pytest.mark.unit


def test_where_a_pair_goes(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.process("train").count(1000, 50000, 0x68)
    (sender,) = Senders(tmp_path / "qp", lambda: Fixed(world.owners), world.sysfs).read()
    assert (sender.job, sender.pid, sender.bytes) == ("train", os.getpid(), 1000)
    (pair,) = sender.pairs
    assert (pair.source, pair.destination) == (HERE, THERE)
    assert (pair.device, pair.port, pair.traffic_class) == ("mlx5_0", 50000, 0x68)


@pytest.mark.parametrize(
    ("longest", "least", "expected"),
    [
        (4096, 0, True),
        (4096, 65536, False),
        (65536, 65536, True),
        (0, 65536, True),  # it has sent, and its shim does not tell lengths
        (0, 0, True),
    ],
)
def test_short_messages_make_no_flow(
    tmp_path: Path, longest: int, least: int, expected: bool
) -> None:
    world = World(tmp_path, long_message_bytes=least)
    process = world.process("train")
    for second in range(4):
        process.count((second + 1) * 10**9, longest=longest)
        world.now += 2.0
        assert world.tracker.look()
    assert bool(any(world.tracker.rates.values())) == expected
    (pair,) = world.tracker.senders[0].pairs
    assert pair.is_elephant(least) == expected
    files = {os.getpid(): tmp_path / f"qp.{os.getpid()}"}
    assert world.tracker.processes() == {"train": files}


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


def test_queue_pairs_of_strangers_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    process = world.process("train")
    process.count(1000, 50000)
    own = (tmp_path / f"qp.{os.getpid()}").read_bytes()
    for number in (1, 900_000_000):  # somebody else's process, and nobody's
        (tmp_path / f"qp.{number}").write_bytes(own)
    read: list[np.void] = []
    as_count = process_counts._pair

    def noted(row: np.void) -> process_counts.QpCount:
        read.append(row)
        return as_count(row)

    monkeypatch.setattr(process_counts, "_pair", noted)
    (sender,) = Senders(tmp_path / "qp", lambda: Fixed(world.owners), world.sysfs).read()
    assert sender.pid == os.getpid()
    assert len(read) == len(sender.pairs)


def test_odd_devices_lead_nowhere(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.process("train", device="../../etc")
    senders = Senders(tmp_path / "qp", lambda: Fixed(world.owners), world.sysfs)
    assert senders.read()[0].pairs == ()
    world.process("train", device="mlx5_9")
    assert senders.read()[0].pairs[0].source == ""


@pytest.mark.parametrize("seed", range(8))
def test_garbage_in_counters_harms_nobody(tmp_path: Path, seed: int) -> None:
    """A job may write what it likes there: all that is made of it stays within bounds."""
    world, rng = World(tmp_path), random.Random(seed)
    world.process("train")
    senders, rates = Senders(tmp_path / "qp", lambda: Fixed(world.owners), world.sysfs), Rates()
    ends = [THERE, "198.18.3.1", "fe80::1", "::"]
    odd = [
        (rng.choice([b"mlx5_0", b"", b"\xff"]), rng.choice([0, 65539]), rng.choice(ends))
        for _ in range(rng.choice([30, plan_region.QPS]))
    ]
    ways: dict[QueuePairRoute, float] = {}
    for look in range(3):
        raw = plan_region.CountsEntry.from_buffer_copy(
            rng.randbytes(ctypes.sizeof(plan_region.CountsEntry))
        )
        raw.magic, raw.version, raw.name = plan_region.MAGIC, plan_region.VERSION, b"train"
        for number, (device, source, end) in enumerate(odd):
            pair = raw.qp[number]
            pair.qpn, pair.device, pair.source = number + 1, device, source
            pair.dgid[:] = plan_region.gid_of(end)
        (tmp_path / f"qp.{os.getpid()}").write_bytes(bytes(raw))
        ways = rates.take(senders.read(), float(look))
    more = queue_pair_records.shared_flows(ways, {}, {}, {}, {}, {})
    assert more.flows  # something of it looks real
    names = {pair: f"m{number}" for number, pair in enumerate(more.tables)}
    assert all(encode(told) for told in rdma_flows.flows({}, more, names, {}, 1.0).values())
    assert all(encode(told) for told in rdma_flows.paths(more, names).values())
    assert [one.job for one in merged((), queue_pair_records.rates_by_job(ways), {})] == ["train"]
    scheduled(view(ways, {}, {}, {}, {}, {}, {}))
