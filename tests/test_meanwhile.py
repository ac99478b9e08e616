"""What the agent waits for holds up its loop nowhere."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.egress import EgressConfig
from hostcc.config.sections.job import JobRequest
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.enforcement import Engine
from hostcc.daemon.marking.queues import LevelQueues
from hostcc.daemon.profiling.rdma_meter import BIN_NS, Rdma
from hostcc.daemon.profiling.tracks import Track
from hostcc.daemon.steering import kernel_hooks as hooked_module
from hostcc.daemon.steering.kernel_hooks import KernelHooks
from hostcc.measure.series import ByteSeries
from hostcc.mltcp.params import Mode
from hostcc.paths import egress_kernel, egress_queues
from hostcc.paths.egress_kernel import Root
from tests.daemon.profiling.hosts import OWN, ToyHost
from tests.hosts import Host
from tests.meanwhile import Meanwhile

pytestmark = [pytest.mark.unit, pytest.mark.asyncio]


async def test_walks_over_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, slow = Host(tmp_path), Meanwhile()
    (host.folder / "run").mkdir()
    journal = Journal(host.folder / "run")
    monkeypatch.setattr("hostcc.daemon.enforcement.resolve_root", lambda _: host.root)
    journal.open()
    engine = Engine(host.config(), journal, host.make_backend, lambda _: host.tree)
    engine.table.register("a", JobRequest(), os.getpid())
    backend, sock = host.backends[0], host.join("a")
    for name in ("switch_sockets", "flows"):
        monkeypatch.setattr(backend, name, slow.before(getattr(backend, name)))
    engine.table.share(Mode.STATIC, {"a": 2.0}, "test")
    await engine.table.moved()
    assert sock.ca.startswith("hcc_")
    assert (await engine.flows(None, 10)).total == 1
    assert await engine.check_flows() == ([], [])
    assert await engine.restore("test") == []
    assert sock.ca == "cubic"
    assert slow.seen == [True] * 4
    journal.close()


async def test_tc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, there = Meanwhile(), {"now": Root("noqueue", "0:")}

    def apply(_: object) -> None:
        there["now"] = Root("prio", f"{egress_queues.MAJOR:x}:")

    def remove(_: object) -> str:
        there["now"] = Root("noqueue", "0:")
        return ""

    monkeypatch.setattr(egress_kernel, "root", slow.before(lambda _: there["now"]))
    monkeypatch.setattr(egress_kernel, "apply", slow.before(apply))
    monkeypatch.setattr(egress_kernel, "remove", slow.before(remove))
    queues = EgressConfig(queues="prio", devices=("eth0",))
    host = ToyHost(tmp_path, Config(agent=OWN, egress=queues))
    host.act()
    part = LevelQueues(host)
    part.start()
    for _ in range(2):
        await part.tick()
    assert part.view().devices == ["eth0"]
    assert await part.verify() == []
    await part.stop()
    assert part.view().devices == []
    assert slow.seen == [True] * 5


async def test_the_pause_for_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, done = 0, False

    async def others() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(hooked_module.DRAIN_S / 10)

    def closed() -> None:
        nonlocal done
        done = True

    (tmp_path / "run").mkdir()
    hooked = KernelHooks.__new__(KernelHooks)
    parts: Any = hooked
    parts._journal = Journal(tmp_path / "run")
    parts.kernel = SimpleNamespace(arriving=lambda: [1], close=closed)
    parts.steering = SimpleNamespace(revert_all=lambda: None)
    beside = asyncio.create_task(others())
    assert await hooked.down(lambda: None) == []
    assert turns > 1
    await beside


async def test_patterns_of_rdma_traffic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, looked = Meanwhile(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def look(self: Track, new: ByteSeries) -> None:
        slow.wait()
        loop.call_soon_threadsafe(looked.set)

    monkeypatch.setattr(Track, "analyse", look)
    now_ns = 0
    part = Rdma(ToyHost(tmp_path), lambda: None, clock_ns=lambda: now_ns)  # type: ignore[arg-type, return-value]
    track = part._tracks["a"] = Track("a")
    sent = np.full(100, 1000, np.int64)
    track.take(ByteSeries(BIN_NS, 0, sent, sent))
    assert track.due
    part._bin, part._bins["a"], part._whose_due_ns = 100, [1, 1], 1 << 62
    now_ns = 101 * BIN_NS
    await part.tick()
    async with asyncio.timeout(60):
        await looked.wait()
    assert slow.seen == [True]
