"""DCQCN parameters: which values, which changes, and edits of a tree that mirrors the real one.

No such NIC is at hand: the trees are made as MLNX_OFED's sysfs and the kernel's debugfs show
them (drivers/infiniband/hw/mlx5/cong.c).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.daemon.changes.journal import Journal
from hostcc.errors import HostccError, InputError
from hostcc.mltcp import dcqcn
from hostcc.mltcp.dcqcn import Knob, Port
from hostcc.mltcp.dcqcn_knobs import Knobs

pytestmark = pytest.mark.unit
PLAIN = {
    Knob.TIME_RESET: 100,
    Knob.BYTE_RESET: 32767,
    Knob.AI_RATE: 5,
    Knob.HAI_RATE: 50,
    Knob.THRESHOLD: 1,
}
ALONE = Port("eth0", ("a",))


@pytest.fixture(params=["ofed", "kernel"])
def knobs(request: pytest.FixtureRequest, tmp_path: Path) -> Knobs:
    sys, debug = tmp_path / "sys", tmp_path / "debug"
    interface = sys / "class/net/eth0"
    if request.param == "ofed":
        folder, prefix = interface / "ecn/roce_rp", "rpg_"
    else:
        device = sys / "devices/pci0000:00/0000:3b:00.0"
        device.mkdir(parents=True)
        interface.mkdir(parents=True)
        (interface / "device").symlink_to(device)
        folder, prefix = debug / "mlx5/0000:3b:00.0/cc_params", "rp_"
    folder.mkdir(parents=True)
    for knob, value in PLAIN.items():
        (folder / f"{prefix}{knob}").write_text(f"{value}\n")
    (sys / "class/net/lo").mkdir()
    return Knobs(sys, debug)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    folder = tmp_path / "run"
    folder.mkdir()
    made = Journal(folder)
    made.open()
    return made


def test_the_thesis_experiment() -> None:
    """T of 125 us is fair; 100 us for one of the jobs is a weight of 1.25 for it."""
    plain = PLAIN | {Knob.TIME_RESET: dcqcn.PLAIN_T_US}
    assert dcqcn.of_weight(plain, 1.0) == {Knob.TIME_RESET: 125}
    assert (
        dcqcn.of_weight(plain, 1.25)
        == {Knob.TIME_RESET: 100}
        == {Knob.TIME_RESET: dcqcn.EAGER_T_US}
    )


def test_f_scales_the_increase() -> None:
    assert dcqcn.of_f(PLAIN, 2.0) == {Knob.AI_RATE: 10, Knob.HAI_RATE: 100}
    assert dcqcn.of_f(PLAIN, 0.01) == {Knob.AI_RATE: 1, Knob.HAI_RATE: 1}
    for bad in (0.0, -1.0, 1000.0, float("nan")):
        with pytest.raises(InputError):
            dcqcn.of_f(PLAIN, bad)


@given(st.floats(0, 1), st.integers(1, 16))
def test_steps_keep_still(ratio: float, steps: int) -> None:
    step = dcqcn.step_of(ratio, steps)
    assert 0 <= step < steps
    assert abs(dcqcn.middle(step, steps) - ratio) <= 0.5 / steps + 1e-9
    assert dcqcn.step_of(ratio, steps, step) == step


def test_a_port_of_several_jobs_is_refused(knobs: Knobs) -> None:
    with pytest.raises(InputError, match="expected one job, got a, b"):
        dcqcn.changes(Port("eth0", ("a", "b")), PLAIN, {Knob.TIME_RESET: 125}, "why")


def test_set_verified_and_rolled_back(knobs: Knobs, journal: Journal) -> None:
    assert knobs.ports() == ("eth0",)
    assert knobs.read("eth0") == PLAIN
    wanted = dcqcn.of_weight(PLAIN, 0.8)
    made = dcqcn.changes(ALONE, knobs.read("eth0"), wanted, "unfair static")
    knobs.apply(made, journal)
    assert knobs.read("eth0") == PLAIN | {Knob.TIME_RESET: 125}
    assert [change.id for change in journal.active.values()] == ["dcqcn:eth0:time_reset"]
    assert dcqcn.differences(made, {"eth0": knobs.read("eth0")}) == []
    assert dcqcn.changes(ALONE, knobs.read("eth0"), wanted, "again") == []
    assert knobs.undo(journal.active.copy().values(), journal) == []
    assert knobs.read("eth0") == PLAIN
    assert not journal.active


def test_a_crash_is_rolled_back_from_the_journal(knobs: Knobs, journal: Journal) -> None:
    made = dcqcn.changes(ALONE, PLAIN, dcqcn.of_f(PLAIN, 3.0), "mltcp")
    knobs.apply(made, journal)
    journal.close()  # and nothing else: the agent is gone
    again = Journal(journal.path.parent)
    again.open()
    knobs.undo(list(again.active.values()), again)
    assert knobs.read("eth0") == PLAIN
    assert not again.active


def test_an_administrators_edit_stays(knobs: Knobs, journal: Journal) -> None:
    made = dcqcn.changes(ALONE, PLAIN, {Knob.TIME_RESET: 125}, "why")
    knobs.apply(made, journal)
    other = dcqcn.changes(ALONE, knobs.read("eth0"), {Knob.TIME_RESET: 300}, "admin")
    (change,) = other
    knobs._write(change, 300)
    (gone,) = dcqcn.differences(made, {"eth0": knobs.read("eth0")})
    assert (gone.expected, gone.found) == ("125", "300")
    knobs.undo(made, journal)
    assert knobs.read("eth0")[Knob.TIME_RESET] == 300
    assert "left alone" in journal.notes[-1].text
    assert not journal.active


def test_all_or_nothing(knobs: Knobs, journal: Journal) -> None:
    good, bad = dcqcn.changes(ALONE, PLAIN, {Knob.TIME_RESET: 125, Knob.AI_RATE: 7}, "why")
    path = knobs._path("eth0", Knob.AI_RATE)
    assert path is not None
    path.unlink()
    path.mkdir()  # cannot be written any more
    with pytest.raises(HostccError):
        knobs.apply([good, bad], journal)
    assert knobs.read("eth0")[Knob.TIME_RESET] == 100
    assert not journal.active


def test_odd_contents_and_names(knobs: Knobs) -> None:
    path = knobs._path("eth0", Knob.AI_RATE)
    assert path is not None
    for text in ("", "x", "-1", "1e9", "9" * 40):
        path.write_text(text)
        assert Knob.AI_RATE not in knobs.read("eth0")
    for name in ("", ".", "..", "a/b", "x" * 16, "nothing"):
        assert knobs.read(name) == {}
    (change,) = dcqcn.changes(ALONE, PLAIN, {Knob.AI_RATE: 0}, "why")
    with pytest.raises(HostccError):
        knobs.set(change, 0)
