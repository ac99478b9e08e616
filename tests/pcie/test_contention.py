"""Measured rates laid over the tree."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostcc.pcie import contention, tree
from tests.pcie.test_tree import from_nccl

pytestmark = pytest.mark.unit
NIC, GPUS = "0000:10:1b.0", ("0000:10:1c.0", "0000:10:1d.0")


def test_two_jobs_on_one_nic(tmp_path: Path) -> None:
    found = from_nccl("p4d", tmp_path)
    uses = {"a": [(GPUS[0], NIC)], "b": [(GPUS[1], NIC)], "c": [("0000:20:1c.0", "0000:20:1b.0")]}
    rate = tree.rate_of(8, 16)
    assert rate is not None
    busy = contention.loads(
        found, uses, {GPUS[0]: 7e9, GPUS[1]: 7e9, "0000:20:1c.0": 15e9}, {NIC: 14e9}
    )
    (top, *rest) = [one for one in busy if one.contended]
    assert not rest
    assert top.link == NIC
    assert top.load == {"a": 7e9, "b": 7e9}
    assert top.utilisation == pytest.approx(14e9 / rate)


def test_one_that_idles_is_no_contention(tmp_path: Path) -> None:
    found = from_nccl("p4d", tmp_path)
    uses = {"a": [(GPUS[0], NIC)], "b": [(GPUS[1], NIC)]}
    busy = contention.loads(found, uses, {GPUS[0]: 15e9, GPUS[1]: 1e6}, {})
    assert not any(one.contended for one in busy)
    assert {one.link for one in busy} == {NIC, *GPUS}
    # The NIC's counters bound what the GPU's can have sent there.
    bounded = contention.loads(found, uses, {GPUS[0]: 15e9}, {NIC: 8e9})
    assert next(one for one in bounded if one.link == GPUS[0]).load == {"a": 4e9}


def test_rates_of_gpus_from_nvml(tmp_path: Path) -> None:
    """Absent hardware: NVML's answers are made up, in its own types and units (KB/s)."""
    found = from_nccl("p4d", tmp_path)
    answers: dict[tuple[Any, ...], Any] = {
        ("nvmlDeviceGetCount",): 3,
        ("nvmlDeviceGetHandleByIndex", 0): "h0",
        ("nvmlDeviceGetHandleByIndex", 1): "h1",
        ("nvmlDeviceGetHandleByIndex", 2): "h2",
        ("nvmlDeviceGetPciInfo_v3", "h0"): SimpleNamespace(busId=b"00000000:10:1C.0"),
        ("nvmlDeviceGetPciInfo_v3", "h1"): SimpleNamespace(busId="not a bus id"),
        ("nvmlDeviceGetPciInfo_v3", "h2"): SimpleNamespace(busId="00000000:10:1D.0"),
        ("nvmlDeviceGetPcieThroughput", "h0", 0): 1000,
        ("nvmlDeviceGetPcieThroughput", "h0", 1): 3000,
    }
    rates = contention.gpu_rates(lambda *words: answers.get(words), found)
    assert rates == {"0000:10:1c.0": 3000 * 1024.0}
    assert contention.gpu_rates(lambda *_: None, found) == {}
