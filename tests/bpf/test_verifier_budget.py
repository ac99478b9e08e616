"""How much of each program the verifier goes through: an older one must not give up on it.

The kernel's limit is a million instructions, all branches together.  Verifiers differ between
kernels by a factor of a few, and a loop that one of them no longer folds costs ten times as much
at once: what grows beyond its budget is looked at before an operator's kernel refuses it.
"""

from __future__ import annotations

import pytest

from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import congestion_path, object_path

pytestmark = pytest.mark.kernel

OBJECTS = ("mark", "meter", "steer", "tracker")
USUAL = 3_000
BUDGET = {
    # They look for a flow among a job's, and for a window among 8,192: bounded loops.
    "hcc_reno_event": 6_500,
    "hcc_cubic_event": 6_500,
    "hcc_dctcp_event": 11_000,
    "hcc_host_event": 7_000,
    "hcc_host_init": 65_000,
    "hcc_host_acked": 60_000,
}
"""Instructions, about half as many again as on Linux 6.18."""


@pytest.fixture(scope="module")
def verified() -> dict[str, int]:
    found: dict[str, int] = {}
    for path in (congestion_path(), *map(object_path, OBJECTS)):
        with BpfObject.open(path) as loaded:
            loaded.load()
            rows = loaded.program_stats()
        found |= {str(row["name"]): int(row["verified_instructions"]) for row in rows}
    return found


def test_every_program_stays_within_its_budget(verified: dict[str, int]) -> None:
    over = {
        name: (count, BUDGET.get(name, USUAL))
        for name, count in verified.items()
        if not 0 < count <= BUDGET.get(name, USUAL)
    }
    assert over == {}


def test_a_budget_is_of_a_program(verified: dict[str, int]) -> None:
    assert BUDGET.keys() <= verified.keys()
