"""Turns at shared PCIe links: made when somebody shares, beaten, and taken away."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from hostcc.daemon.rdma.gpu_links import GpuUse
from hostcc.daemon.rdma.pcie_links import SharedLinks
from hostcc.daemon.rdma.pcie_turns import Turns
from hostcc.errors import HostccError
from hostcc.pcie import handout, sysfs
from hostcc.pcie.keeper import Keeper, remove
from hostcc.pcie.semaphore import Semaphores, Settings
from hostcc.pcie.tree import Tree
from tests.daemon.declared import check_declared
from tests.daemon.rdma.test_pcie_links import GPU, NIC, OTHER_GPU
from tests.daemon.rdma.world import World
from tests.pcie import servers

pytestmark = [pytest.mark.unit, pytest.mark.slow]


class Stage:
    """Two jobs whose GPUs are below one switch with one NIC (Amazon's p4d)."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder, (NIC,))
        self.tree = sysfs.read(servers.sysfs("p4d", folder / "server"))
        self.rates: list[bool] = []
        world = self.world
        self.processes = []
        for job, pid in (("a", os.getpid()), ("b", os.getppid())):
            world.job(job)
            self.processes.append(world.process(job, pid, NIC))
        self.part = Turns(
            world.host, world.tracker, lambda _: self.tree, self.look, lambda: world.now
        )

    def look(self, tree: Tree, rates: bool) -> GpuUse:
        self.rates.append(rates)
        both = {GPU: 15e9, OTHER_GPU: 15e9}
        return GpuUse({os.getpid(): (GPU,), os.getppid(): (OTHER_GPU,)}, both if rates else {})

    def run(self, times: int = 3) -> None:
        async def scene() -> None:
            for _ in range(times):
                self.world.now += 11.0
                self.world.tracker.look()
                await self.part.tick()
                await asyncio.sleep(0.05)

        asyncio.run(scene())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_who_shares_a_link_gets_a_semaphore(stage: Stage) -> None:
    place = Path(stage.world.host.config.pcie.semaphores)
    stage.part.start()
    assert not place.exists()  # nobody shares anything yet
    stage.run()
    assert stage.world.tracker.gates == {"a": ((NIC, 0),), "b": ((NIC, 0),)}
    assert f"pcie-semaphores:{place}" in stage.world.host.journal.active
    with Semaphores.open(place) as region, region.join(0, 3) as mine:
        assert region.states()[0].name == NIC
        assert mine.enter()
        mine.leave()
        (row,) = stage.part.view().shared_links
        assert (row.link, row.jobs, row.participants) == (NIC, ["a", "b"], 1)
        check_declared(stage.part)
    assert stage.rates[0] is False
    assert any(stage.rates)  # asked for once a link is shared
    inside = stage.world.tracker.inside["a", NIC]
    assert inside[0].endswith(f"/pci/{GPU}/up")
    assert stage.world.tracker.capacities[inside[0]] > 1e9
    stage.part.stop()
    assert not place.exists()
    assert stage.world.tracker.gates == {}
    assert not [key for key in stage.world.host.journal.active if key.startswith("pcie")]


def test_when_nobody_shares_any_more(stage: Stage) -> None:
    stage.part.start()
    stage.run()
    del stage.world.owners[os.getppid()]
    stage.run()
    assert stage.world.tracker.gates == {}
    stage.part.stop()


def test_settings_change_live(stage: Stage) -> None:
    stage.part.start()
    stage.run()
    config = stage.world.host.config
    pcie = msgspec.structs.replace(config.pcie, granule=4096)
    agent = msgspec.structs.replace(config.agent, heartbeat_s=2.0, heartbeat_stale_s=5.0)
    stage.world.host.config = msgspec.structs.replace(config, pcie=pcie, agent=agent)
    stage.run()
    with Semaphores.open(Path(config.pcie.semaphores)) as region:
        assert region._links[0].granule == 4096
        assert region._region.stale_us == 5_000_000
    stage.part.stop()


def test_settings_that_changed_while_a_link_was_not_shared(stage: Stage) -> None:
    """Another one is, meanwhile."""
    stage.part.start()
    stage.run()  # they share the NIC's
    nic = stage.part._shared
    other = SharedLinks({"other": ("a", "b")}, {"a": ((NIC, "other"),), "b": ((NIC, "other"),)})
    config = stage.world.host.config
    stage.part._shared = other
    assert stage.part._gates() == {"a": ((NIC, 1),), "b": ((NIC, 1),)}
    pcie = msgspec.structs.replace(config.pcie, granule=4096)
    stage.world.host.config = msgspec.structs.replace(config, pcie=pcie)
    stage.part._gates()
    stage.part._shared = nic
    stage.part._gates()
    with Semaphores.open(Path(config.pcie.semaphores)) as region:
        assert [region._links[number].granule for number in (0, 1)] == [4096, 4096]
    stage.part.stop()


def test_what_others_do_to_the_socket_shows(stage: Stage) -> None:
    stage.part.start()
    stage.run()
    place = Path(stage.world.host.config.pcie.semaphores)
    assert stage.part.verify() == []
    place.rename(place.with_name("away"))
    assert stage.part.verify()[0].found == "No such file or directory"
    place.write_text("another")
    (found,) = stage.part.verify()
    assert found.found == "another file"
    stage.part.stop()
    assert place.exists()  # not ours


def test_what_others_write_is_mended_and_not_believed(stage: Stage) -> None:
    stage.part.start()
    stage.run()
    place = Path(stage.world.host.config.pcie.semaphores)
    fd = handout.ask(place)
    whole = os.pread(fd, os.fstat(fd).st_size, 0)
    os.pwrite(fd, b"\xff" * len(whole), 0)
    (row,) = stage.part.view().shared_links
    assert row.link == NIC
    with pytest.raises(HostccError):
        Semaphores.open(place)
    stage.run()  # beats
    with Semaphores.open(place) as region:
        assert region.states()[0].name == NIC
        assert region._links[0].patience_us == 1_000_000
    os.close(fd)
    stage.part.stop()


def test_what_a_killed_agent_left_goes(stage: Stage) -> None:
    stage.part.start()
    stage.run()
    place = Path(stage.world.host.config.pcie.semaphores)
    other = Turns(stage.world.host, stage.world.tracker)
    other.start()  # of the next agent, on the same journal
    assert not place.exists()
    assert not [key for key in stage.world.host.journal.active if key.startswith("pcie")]


def test_only_regions_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("somebody's")
    assert not remove(path)
    assert not remove(tmp_path)
    with pytest.raises(HostccError):
        Keeper(tmp_path / "region", 1.0, "no-such-group-here")
    assert not (tmp_path / "region").exists()


def test_a_closed_region_makes_nobody_wait(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "region", 60.0)
    assert keeper.number("link", Settings(patience_s=5.0)) == 0
    assert keeper.number("other", Settings()) == 1
    region = Semaphores.open(keeper.path)
    with region, region.join(0, 0) as holder, region.join(0, 5) as waiter:
        keeper.beat(60.0)
        assert holder.enter()
        keeper.close()
        assert not waiter.enter()  # goes ahead without the link, at once
