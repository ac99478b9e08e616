"""The DCTCP variant with F = 1 against tcp_dctcp of Debian 12's kernel, call by call."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hostcc.bpf.build import build_directory
from tests.vm import machine
from tests.vm.test_oldest_kernel import finished
from tests.vm.test_oldest_kernel import pytestmark as needs_vm

pytestmark = needs_vm

RECOVERY = 3
LOSS, NO_CE, IS_CE = 3, 4, 5


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not list(machine.KERNEL_TREE.glob("lib/modules/*/kernel/net/ipv4/tcp_dctcp.ko*")):
        pytest.fail("the kernel package has no tcp_dctcp; tools/setup --with-vm gets one")
    objects = tmp_path_factory.mktemp("dctcp")
    build_directory(Path(__file__).parent, objects, werror=True)
    output = finished([sys.executable, "-m", "tests.vm.dctcp_guest", str(objects)])
    made: dict[str, Any] = json.loads(output.splitlines()[-1])
    return made


def test_no_operation_differs(report: dict[str, Any]) -> None:
    assert report["kernel"].startswith("6.1.")
    for name, row in report["one"].items():
        assert row["mismatches"] == 0, f"{name}: {row['last']}"


def test_all_of_it_was_compared(report: dict[str, Any]) -> None:
    done = report["one"]
    assert done["init"]["calls"] > 0
    assert done["avoid"]["calls"] > 100
    assert done["in_ack"]["calls"] > 300
    assert done["undo"]["calls"] > 300
    assert done["ssthresh"]["calls"] > 5
    assert done["state"]["arguments"][RECOVERY] > 1
    events = done["event"]["arguments"]
    assert events[LOSS] > 1
    assert min(events[NO_CE], events[IS_CE]) > 100
    assert done["event"]["acks"] > 5


def test_another_factor_shows(report: dict[str, Any]) -> None:
    """The comparison can fail: with F = 3 the windows differ, in avoidance only."""
    assert report["three"]["avoid"]["mismatches"] > 0
    assert {name for name, row in report["three"].items() if row["mismatches"]} == {"avoid"}


def test_without_ecn_it_is_our_reno(report: dict[str, Any]) -> None:
    runs, expected, capable = report["refused"]
    assert runs == expected
    assert capable == 0
