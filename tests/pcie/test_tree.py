"""Trees of published servers, read in three forms, and who shares what on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostcc.errors import InputError
from hostcc.pcie import hwloc_xml, nccl_xml, render, sysfs, tree
from hostcc.pcie.tree import Kind, Node, Tree
from tests.pcie import servers

pytestmark = pytest.mark.unit


def from_nccl(server: str, folder: Path) -> Tree:
    path = folder / "nccl.xml"
    path.write_text(servers.nccl(server))
    return nccl_xml.read(path)


def from_hwloc(server: str, folder: Path) -> Tree:
    path = folder / "hwloc.xml"
    path.write_text(servers.hwloc(server))
    return hwloc_xml.read(path)


def from_sysfs(server: str, folder: Path) -> Tree:
    return sysfs.read(servers.sysfs(server, folder / "sys"))


READERS: dict[str, Callable[[str, Path], Tree]] = {
    "nccl": from_nccl,
    "hwloc": from_hwloc,
    "sysfs": from_sysfs,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("server", "nics"), [("ndv5", 8), ("p4d", 4), ("p5", 32)])
def test_published_servers(server: str, nics: int, reader: str, tmp_path: Path) -> None:
    found = READERS[reader](server, tmp_path)
    gpus = found.of_kind(Kind.GPU)
    assert len(gpus) == 8
    assert len(found.of_kind(Kind.NIC)) == nics
    wanted = {
        device.busid: (switch.numa, servers.gigabytes(device.speed, device.width) * 1e9)
        for switch in servers.SERVERS[server]
        for device in switch.devices
    }
    for node in [*gpus, *found.of_kind(Kind.NIC)]:
        numa, rate = wanted[node.id]
        assert node.numa == numa
        assert node.rate == pytest.approx(rate, rel=1e-3)
    all_nics = [node.id for node in found.of_kind(Kind.NIC)]
    for switch in servers.SERVERS[server]:
        below = {device.busid for device in switch.devices}
        for gpu in (d.busid for d in switch.devices if d.pci_class == servers.GPU):
            nic = tree.nearest(found, gpu, all_nics)
            assert nic in below
            assert gpu in tree.path(found, gpu, nic)


@pytest.mark.parametrize("reader", READERS)
def test_two_gpus_and_one_nic_below_a_switch(reader: str, tmp_path: Path) -> None:
    """p4d: jobs on the two GPUs of one switch meet on the NIC's link, others nowhere."""
    found = READERS[reader]("p4d", tmp_path)
    nics = [node.id for node in found.of_kind(Kind.NIC)]
    uses = {
        "a": tree.uses_of(found, ["0000:10:1c.0"], nics),
        "b": tree.uses_of(found, ["0000:10:1d.0"], nics),
        "c": tree.uses_of(found, ["0000:20:1c.0"], nics),
        "d": tree.uses_of(found, ["0000:90:1c.0"], nics),
    }
    assert tree.shared(found, uses) == {"0000:10:1b.0": ("a", "b")}


@pytest.mark.parametrize("reader", READERS)
def test_memory_traffic_meets_above_the_switch(reader: str, tmp_path: Path) -> None:
    found = READERS[reader]("p4d", tmp_path)
    uses = {"a": [("0000:10:1c.0", "")], "b": [("0000:10:1d.0", "")]}
    contested = tree.shared(found, uses)
    assert contested
    assert all(found.nodes[link].kind in (Kind.UPSTREAM, Kind.ROOT_PORT) for link in contested)


@pytest.mark.parametrize("server", ["ndv5", "p5"])
def test_one_gpu_per_switch_shares_nothing(server: str, tmp_path: Path) -> None:
    found = from_sysfs(server, tmp_path)
    nics = [node.id for node in found.of_kind(Kind.NIC)]
    uses = {gpu.id: tree.uses_of(found, [gpu.id], nics) for gpu in found.of_kind(Kind.GPU)}
    uses = {f"job{index}": pairs for index, pairs in enumerate(uses.values())}
    assert tree.shared(found, uses) == {}


def test_across_sockets(tmp_path: Path) -> None:
    found = from_nccl("p4d", tmp_path)
    way = tree.path(found, "0000:10:1c.0", "0000:90:1b.0")
    assert way == (
        "0000:10:1c.0", "ffff:ff:01.0", "cpu0", "cpu1", "ffff:ff:03.0", "0000:90:1b.0",
    )  # fmt: skip
    near = tree.distance(found, "0000:10:1c.0", "0000:20:1b.0")
    assert near < tree.distance(found, "0000:10:1c.0", "0000:90:1b.0")


def test_rates() -> None:
    assert tree.rate_of(16.0, 16) == pytest.approx(31.5e9, rel=1e-3)
    assert tree.rate_of(5.0, 4) == pytest.approx(2e9)
    assert tree.rate_of(64.0, 16) == pytest.approx(121e9)
    assert tree.rate_of(None, 16) is None


def test_names_and_bus_ids(tmp_path: Path) -> None:
    found = from_sysfs("p5", tmp_path)
    assert found.find("rdmap79s0").id == "0000:50:00.0"
    assert tree.bus_id("00000000:3B:00.0") == "0000:3b:00.0"
    for bad in ("", "3b:00.0", "0000:3b:00", "0000:3b:00.0x", "x" * 100):
        with pytest.raises(InputError):
            tree.bus_id(bad)
    with pytest.raises(InputError):
        found.find("nothing")


def test_a_link_that_trained_down_is_drawn(tmp_path: Path) -> None:
    top = servers.sysfs("ndv5", tmp_path)
    device = next(top.rglob("0001:00:00.0"))
    (device / "current_link_width").write_text("8\n")
    text = "\n".join(render.lines(sysfs.read(top), {"0001:00:00.0": ("a", "b")}))
    assert "gpu 0001:00:00.0 32 GT/s x8 (31.5 GB/s) of 63.0  <- a, b" in text
    assert text.count("gpu ") == 8


def test_this_machine_can_be_read() -> None:
    assert isinstance(sysfs.read(), Tree)


def test_unreadable_and_odd_files_are_nothing(tmp_path: Path) -> None:
    host = tmp_path / "devices/pci0000:00"
    (host / "0000:00:01.0").mkdir(parents=True)
    (host / "not a device").mkdir()
    (host / "0000:00:01.0/class").write_bytes(b"\xff" * 100)
    (host / "0000:00:01.0/current_link_speed").write_text("Unknown\n")
    found = sysfs.read(tmp_path)
    assert found.nodes["0000:00:01.0"] == Node("0000:00:01.0", Kind.OTHER, "pci0000:00")


BAD = [
    "", "<system>", "<topo/>", "<system><cpu><pci/></cpu></system>",
    '<system><cpu numaid="0"><pci busid="x"/></cpu></system>',
    '<system><cpu numaid="0"><pci busid="0000:00:01.0" class="z"/></cpu></system>',
    '<!DOCTYPE a [<!ENTITY b "c">]><system/>',
    '<system><cpu><pci busid="0000:00:01.0"/><pci busid="0000:00:01.0"/></cpu></system>',
]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_bad_files_are_refused_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.xml"
    path.write_text(text)
    for read in (nccl_xml.read, hwloc_xml.read):
        with pytest.raises(InputError) as caught:
            read(path)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_read_or_refused(data: st.DataObject, tmp_path: Path) -> None:
    text = data.draw(st.sampled_from([servers.nccl("p4d"), servers.hwloc("p4d")]))
    at = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 40))
    text = text[:at] + data.draw(st.text(max_size=20)) + text[at + length :]
    path = tmp_path / "t.xml"
    path.write_text(text, errors="replace")
    for read in (nccl_xml.read, hwloc_xml.read):
        try:
            found = read(path)
        except InputError:
            continue
        assert all(not node.parent or node.parent in found.nodes for node in found.nodes.values())
