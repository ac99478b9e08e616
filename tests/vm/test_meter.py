"""The byte meter on the oldest kernel: its programs load there, and count to the byte."""

from __future__ import annotations

import sys

from tests.vm.test_oldest_kernel import finished
from tests.vm.test_oldest_kernel import pytestmark as of_the_vm

pytestmark = of_the_vm

TESTS = "to_the_byte or loopback or port_rules or kill_9 or more_destinations or links"


def test_meter() -> None:
    output = finished(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "kernel",
         "-k", TESTS, "tests/measure/test_meter_kernel.py", "tests/measure/test_link_speeds.py"]
    )  # fmt: skip
    assert " passed" in output
