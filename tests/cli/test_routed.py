"""What status says of paths and flows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from hostcc.answers.status import Routing
from hostcc.cli.routed import FLOWS_SHOWN, lines

pytestmark = pytest.mark.unit


def destination(**over: Any) -> dict[str, Any]:
    return {
        "src": "10.0.0.1", "dst": "10.0.0.2", "dst_port": 5301, "paths": 4, "ports": 28,
        "confidence": 0.99, "age_s": 3.2, "reason": None, **over,
    }  # fmt: skip


def flow(state: str, reason: str | None = None) -> dict[str, Any]:
    ends = {"local": "10.0.0.1:40000", "remote": "10.0.0.2:5301"}
    return {"job": "train", **ends, "state": state, "reason": reason}


def test_nothing_where_paths_are_off() -> None:
    assert lines(None) == lines(Routing(destinations=(), flows=())) == []


def test_paths_by_pair_and_flows_with_reasons() -> None:
    block = {
        "destinations": [
            destination(),
            destination(dst_port=5302, paths=3, age_s=9.0, confidence=0.9),
            destination(dst="10.0.0.3", paths=0, age_s=None, reason="no router answers"),
        ],
        "flows": [flow("planned"), flow("ecmp", "its paths are not known"), flow("planned")],
    }
    assert lines(convert(block, Routing)) == [
        "paths 10.0.0.1 to 10.0.0.2: 3 to 4, confidence 90%, seen 9 s ago",
        "paths 10.0.0.1 to 10.0.0.3: 0; no router answers",
        "large flows: 2 on planned paths, 1 on ECMP",
        "  train 10.0.0.1:40000 to 10.0.0.2:5301: its paths are not known",
    ]


def test_many_reasons_are_cut_short() -> None:
    block = {"destinations": [], "flows": [flow("ecmp", "why")] * (FLOWS_SHOWN + 3)}
    assert lines(convert(block, Routing))[-1] == "  and 3 more"
