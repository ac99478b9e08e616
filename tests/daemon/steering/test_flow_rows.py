"""What is shown of a connection's path and marks."""

from __future__ import annotations

import pytest
from msgspec.structs import asdict

from hostcc.answers.flows import FlowRow
from hostcc.daemon.steering.elephants import flow_id
from hostcc.daemon.steering.flow_rows import described, key_of
from hostcc.model import FlowPlan, JobPlan, Plan
from hostcc.paths.steering_messages import FlowKey

pytestmark = pytest.mark.unit

KEY = FlowKey("198.18.0.1", "198.18.0.9", 40000, 5301)
ROW = FlowRow(
    job="a", local="198.18.0.1:40000", remote="198.18.0.9:5301", state="established", cwnd_packets=7
)
ENDS = (KEY.src, KEY.sport, KEY.dst, KEY.dport)


def plan(path: str, host: str = "h1") -> Plan:
    flows = (FlowPlan(f"{host}/{flow_id(KEY)}", path),)
    return Plan("d", (JobPlan("a", 0, 2, 1.0),), flows)


def test_ends_of_both_families() -> None:
    assert key_of(ROW) == KEY
    wide = FlowRow(job="a", local="[fd00::1]:1", remote="[fd00::2]:65535", state="established")
    assert key_of(wide) == FlowKey("fd00::1", "fd00::2", 1, 65535)


@pytest.mark.parametrize(
    ("there", "planned", "shown"),
    [
        ("p1", "p1", ("p1", "p1", "wanted")),
        ("p2", "p1", ("p2", "p1", "found")),
        ("", "p1", (None, "p1", None)),
    ],
)
def test_wanted_or_found(
    there: str, planned: str, shown: tuple[str | None, str | None, str | None]
) -> None:
    (row,) = described([ROW], lambda _: (there, 61007), "h1", plan(planned), {ENDS: 46})
    assert (row.path, row.planned_path, row.path_is) == shown
    assert (row.wire_port, row.dscp, row.level) == (61007, 46, 2)
    before = {key: value for key, value in asdict(ROW).items() if value is not None}
    before.pop("protocol")
    assert asdict(row).items() >= before.items()


def test_by_flow_label() -> None:
    row = FlowRow(job="a", local="[fd00::1]:40000", remote="[fd00::9]:5301", state="established")
    (moved,) = described([row], lambda _: ("p1", 61007), "h1", None, {}, by_label=True)
    assert (moved.wire_port, moved.flow_label) == (40000, 61007)
    (own,) = described([row], lambda _: ("", 40000), "h1", None, {}, by_label=True)
    assert (own.wire_port, own.flow_label) == (40000, None)


def test_without_a_plan_or_one_of_another_host() -> None:
    (row,) = described([ROW], lambda _: ("p1", 40000), "h1", None, {})
    assert (row.planned_path, row.path_is, row.dscp, row.level) == (
        None, "found", None, None,
    )  # fmt: skip
    (row,) = described([ROW], lambda _: ("p1", 40000), "h1", plan("p1", "h2"), {})
    assert (row.planned_path, row.path_is) == (None, "found")
