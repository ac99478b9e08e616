"""What doctor says of RDMA NICs: trees that mirror sysfs, and trials that a stand-in answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hostcc.cli import nics
from hostcc.cli.findings import Finding, State
from hostcc.mltcp.dcqcn import Knob
from hostcc.mltcp.dcqcn_knobs import Knobs
from hostcc.verbs.nic_trial import NO_PYVERBS, PyverbsNic, Trial, driver_of, roce_gid

pytestmark = pytest.mark.unit
IPV4 = "0000:0000:0000:0000:0000:ffff:c612:0101"
IPV6 = "fe80:0000:0000:0000:0202:c9ff:fe00:0001"
NONE = "0000:0000:0000:0000:0000:0000:0000:0000"


class Fixed:
    """Opens nothing.  Absent hardware: it answers as told."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.asked: list[tuple[str, int]] = []

    def try_port(self, device: str, port: int) -> Trial:
        self.asked.append((device, port))
        return self.trial


def tree(folder: Path, layer: str = "Ethernet", device: str = "mlx5_0") -> Path:
    """A NIC of mlx5's in sysfs."""
    sysfs = folder / "sys/class/infiniband"
    port = sysfs / device / "ports/1"
    for name in ("gids", "gid_attrs/types", "gid_attrs/ndevs", "counters", "hw_counters"):
        (port / name).mkdir(parents=True)
    driver = folder / "sys/bus/pci/drivers/mlx5_core"
    driver.mkdir(parents=True, exist_ok=True)
    (sysfs / device / "device").mkdir()
    (sysfs / device / "device/driver").symlink_to(driver)
    (port / "link_layer").write_text(f"{layer}\n")
    (port / "gid_attrs/ndevs/0").write_text("eth0\n")
    for index, (gid, kind) in enumerate(
        ((IPV6, "IB/RoCE v1"), (IPV6, "RoCE v2"), (NONE, "RoCE v2"), (IPV4, "RoCE v2"))
    ):
        (port / "gids" / str(index)).write_text(f"{gid}\n")
        (port / "gid_attrs/types" / str(index)).write_text(f"{kind}\n")
    for name in ("port_xmit_data", "port_rcv_data"):
        (port / "counters" / name).write_text("7\n")
    (port / "hw_counters/out_of_sequence").write_text("0\n")
    return sysfs


def rows(sysfs: Path, trial: Trial, folder: Path) -> dict[str, Finding]:
    knobs = Knobs(folder / "sys", folder / "debug")
    return {one.name: one for one in nics.findings(sysfs, Fixed(trial), knobs)}


def test_a_nic_of_which_all_works(tmp_path: Path) -> None:
    sysfs = tree(tmp_path)
    knobs = tmp_path / "sys/class/net/eth0/ecn/roce_rp"
    knobs.mkdir(parents=True)
    for knob, value in ((Knob.TIME_RESET, 125), (Knob.AI_RATE, 5)):
        (knobs / f"rpg_{knob}").write_text(f"{value}\n")
    found = rows(sysfs, Trial("", "", "", "", ""), tmp_path)
    assert set(found) == {
        "mlx5_0/1", "mlx5_0/1 source port", "mlx5_0/1 class", "mlx5_0/1 live change",
        "mlx5_0/1 modify_udp_sport", "mlx5_0/1 DCQCN", "mlx5_0/1 counters",
    }  # fmt: skip
    assert {one.state for one in found.values()} == {State.OK}
    assert not any(one.required for one in found.values())
    assert found["mlx5_0/1"].detail == "RoCE, eth0, mlx5_core"
    assert found["mlx5_0/1 DCQCN"].detail == "ai_rate 5, time_reset 125"
    assert found["mlx5_0/1 counters"].detail == "bytes, retransmissions; no packets"


def test_each_thing_can_fail_by_itself(tmp_path: Path) -> None:
    sysfs = tree(tmp_path)
    found = rows(sysfs, Trial("", "", "", "cannot be drained: EINVAL", None), tmp_path)
    live = found["mlx5_0/1 live change"]
    assert (live.state, live.detail) == (State.MISSING, "cannot be drained: EINVAL")
    call = found["mlx5_0/1 modify_udp_sport"]
    assert (call.state, call.detail) == (State.UNKNOWN, "mlx5 alone has it")
    assert found["mlx5_0/1 class"].state is State.OK
    knobs = found["mlx5_0/1 DCQCN"]
    assert knobs.state is State.MISSING
    assert knobs.remedy


def test_without_pyverbs_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sysfs = tree(tmp_path)
    monkeypatch.setitem(sys.modules, "pyverbs.device", None)
    trial = PyverbsNic(sysfs).try_port("mlx5_0", 1)
    assert trial == Trial(untried=NO_PYVERBS)
    found = rows(sysfs, trial, tmp_path)
    for what in ("source port", "class", "live change", "modify_udp_sport"):
        row = found[f"mlx5_0/1 {what}"]
        assert (row.state, row.detail) == (State.UNKNOWN, NO_PYVERBS)
    assert found["mlx5_0/1 counters"].state is State.OK  # needs no device to be opened


def test_a_device_that_does_not_open(tmp_path: Path) -> None:
    """It is in the tree, and nowhere else."""
    pytest.importorskip("pyverbs.device", reason="no pyverbs; tools/setup gets it")
    trial = PyverbsNic(tree(tmp_path, device="none_0")).try_port("none_0", 1)
    assert trial.untried.startswith("not tried: ")
    assert "\n" not in trial.untried


def test_infiniband_is_not_opened(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, layer="InfiniBand")
    nic = Fixed(Trial())
    found = nics.findings(sysfs, nic, Knobs(tmp_path / "sys", tmp_path / "debug"))
    assert nic.asked == []
    assert [one.name for one in found] == ["mlx5_0/1", "mlx5_0/1 counters"]
    assert found[0].detail == "InfiniBand, mlx5_core: hostcc steers RoCE alone"


def test_which_address_is_taken(tmp_path: Path) -> None:
    sysfs = tree(tmp_path)
    port = sysfs / "mlx5_0/ports/1"
    assert roce_gid(port) == 3  # of IPv4
    (port / "gids/3").unlink()
    assert roce_gid(port) == 1
    (port / "gid_attrs/types/1").write_bytes(b"\xff")
    assert roce_gid(port) is None
    assert PyverbsNic(sysfs).try_port("mlx5_0", 1).untried
    assert driver_of(sysfs, "mlx5_0") == "mlx5_core"
    assert driver_of(sysfs, "mlx5_1") == ""


def test_a_host_without_devices(tmp_path: Path) -> None:
    assert nics.findings(tmp_path / "none", Fixed(Trial())) == []
