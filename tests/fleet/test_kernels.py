"""The kernels of Debian's and Ubuntu's archives: what hostcc loads there, and what each lacks.

Not in CI: `tools/kernels` gets them first, and an emulated guest takes minutes for each.
"""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.fleet import in_guest, table
from tests.vm import machine
from tests.vm.test_oldest_kernel import ADAPTER

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(7200)]

TESTS = ("tests/bpf", "tests/mltcp/test_learning.py", "tests/mltcp/test_death.py")
"""Loading, registering and holding programs; iterations learned; what a killed agent leaves."""

kernels = pytest.mark.parametrize("kernel", in_guest.here() or ["none"])


@kernels
def test_loads_and_works(kernel: str) -> None:
    outcome = machine.run(in_guest.words(["-q", "-m", "kernel", *TESTS]), in_guest.tree_of(kernel))
    assert outcome.status == 0, machine.described(outcome)
    assert re.search(r"\b\d+ passed", outcome.output), outcome.output


@kernels
def test_the_adapter_switches_sockets(kernel: str) -> None:
    outcome = machine.run([sys.executable, "-c", ADAPTER], in_guest.tree_of(kernel))
    assert outcome.output.endswith("adapter works\n"), machine.described(outcome)


@kernels
def test_a_doctor_finds_nothing_that_is_required_missing(kernel: str) -> None:
    report = json.loads(table.doctor(kernel))
    assert report["healthy"], report
    assert {one["name"]: one["state"] for one in report["findings"]}["struct_ops"] == "ok"
