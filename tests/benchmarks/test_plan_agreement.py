"""How long hosts of one job act by different plans: few hosts, few seconds."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks import plan_agreement, record
from benchmarks.context import Context
from benchmarks.plan_agreement import ACTS, CASES, AgreementFigures, row

pytestmark = pytest.mark.unit


@pytest.mark.slow
def test_hosts_of_one_version_come_to_one_plan_for_each_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_agreement, "CASES", {"one version": CASES["one version"]})
    monkeypatch.setattr(plan_agreement, "DRAIN_S", 5.0)
    asked = argparse.Namespace(hosts=8, seconds=10, every=10, seeds=(0, 1))
    found = plan_agreement.run(asked, Context(1, tmp_path))
    assert record.decode(record.encode(found)).benchmark == "plan-agreement"
    assert found.met
    assert [one["act_on"] for one in found.rows] == list(ACTS)
    for one in found.rows:
        assert one["never"] == 0
        assert one["longest"] < plan_agreement.DRAIN_S  # type: ignore[operator]


def test_a_row_is_of_all_seeds() -> None:
    some = AgreementFigures([1.0, 3.0], 3.5, [2.0, float("inf")], 50.0)
    made = row("case", "agreed", [some, AgreementFigures([], 0.0, [4.0], 50.0)])
    assert (made["share"], made["times"]) == (0.04, 2)
    assert (made["longest"], made["most"]) == (3.0, 3.5)
    assert (made["wait"], made["never"]) == (2.0, 1)
