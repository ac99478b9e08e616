"""Reading perftest, pairing, and refusing where there is no RDMA."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import shim
from hostcc.errors import HostccError, InputError

pytestmark = pytest.mark.unit

BANDWIDTH = """
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 16384      400              19.67              1.64   \t\t   0.000105
------
"""
LATENCY = """
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 64     1000          80.1          900.2         101.5            110.2         20.1   300  880
"""


def test_figures() -> None:
    assert shim.figure(BANDWIDTH) == 1.64
    assert shim.figure(LATENCY) == 101.5
    for text in ("", "nothing", " 1 2 3"):
        with pytest.raises(HostccError):
            shim.figure(text)


def test_pairs() -> None:
    assert shim.relative([100, 200], [110, 190], higher_is_worse=True) == pytest.approx(
        [0.1, -0.05]
    )
    assert shim.relative([100], [50], higher_is_worse=False) == [1.0]


def test_without_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shim, "DEVICES", tmp_path)
    with pytest.raises(HostccError, match="two RDMA devices"):
        shim.devices("")
    (tmp_path / "rxa").mkdir()
    with pytest.raises(InputError, match="rxa,rxb"):
        shim.devices("rxa,rxb")
    (tmp_path / "rxb").mkdir()
    assert shim.devices("") == ("rxa", "rxb")
    assert shim.devices("rxb,rxa") == ("rxb", "rxa")


def test_surroundings(tmp_path: Path) -> None:
    with shim.surroundings("without") as environment:
        assert "HOSTCC_JOB" not in environment
    with shim.surroundings("active") as environment:
        assert Path(environment["HOSTCC_RDMA_PLAN"]).exists()
    assert not Path(environment["HOSTCC_RDMA_PLAN"]).exists()
