"""Two jobs on one port of Soft-RoCE take turns by the shim's gates."""

from __future__ import annotations

import json
import sys
from typing import Any

from hostcc.system.cc import build
from hostcc.verbs.build import SHIM
from tests.vm.test_oldest_kernel import finished
from tests.vm.test_shim import pytestmark
from tests.vm.turns_guest import HOLDS, JOBS

__all__ = ["pytestmark"]
MAX_HOLD_S = 2.0
"""The shim lets nobody wait for longer, however slow the other one."""


def test_two_jobs_on_one_port_take_turns() -> None:
    """Who waited goes on when the other one has sent; nobody waits once the agent has died."""
    build(SHIM)
    output = finished([sys.executable, "-m", "tests.vm.turns_guest"])
    turns: dict[str, Any] = json.loads(output.partition("REPORT ")[2].splitlines()[0])
    assert turns["status"] == [0, 0]
    assert all(waited >= HOLDS for waited in turns["turns"].values())
    assert turns["turns_after_death"] == turns["turns"]
    sending, held, waited = set[str](), dict[str, float](), list[str]()
    for job, event, at_s in sorted(turns["events"], key=lambda one: one[2]):
        if event == "HELD":
            held[job] = at_s
        elif event == "BEGIN":
            if at_s - held.pop(job, 0.0) < MAX_HOLD_S:
                assert sending <= {job}, turns
                waited.append(job)
            sending.add(job)
        else:
            sending.discard(job)
    assert set(waited) == set(JOBS)
