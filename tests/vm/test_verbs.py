"""Queue pairs on chosen paths and classes, live, on a Soft-RoCE fabric with two paths."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter

import pytest

from tests.vm.test_oldest_kernel import finished
from tests.vm.test_oldest_kernel import pytestmark as of_the_vm

pytestmark = [
    *of_the_vm,
    pytest.mark.skipif(
        importlib.util.find_spec("pyverbs") is None, reason="no pyverbs; tools/setup gets it"
    ),
]

CHANGES = 1000


def test_ports_classes_paths_and_live_changes() -> None:
    output = finished([sys.executable, "-m", "tests.vm.verbs_guest", str(CHANGES)])
    report = json.loads(output.partition("REPORT ")[2].splitlines()[0])
    paths: Counter[str] = Counter()
    for row in report["start"]:
        ((path, port, traffic_class),) = row["seen"]
        assert (port, traffic_class) == (row["port"], row["class"])
        assert row["read"] in ([port, traffic_class], [None, 0])
        paths[path] += 1
    assert set(paths) == {"p0", "p1"}  # the router's ECMP sees the port
    assert len(report["probed"]) == 2
    taken = [set(ways) for ways in report["probed"].values()]
    assert sorted(map(sorted, taken)) == [["p0"], ["p1"]]  # queue pairs go where probes went
    live = report["live"]
    assert (live["changes"], live["bad"], live["wrong"]) == (CHANGES, 0, 0)
    assert (live["on_the_wire"], live["lost"]) == (CHANGES, 0)
