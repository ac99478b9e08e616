"""Names of network namespaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.tracing import netns_names
from tools.tracing.netns_names import Namespaces

pytestmark = pytest.mark.unit


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = tmp_path / "netns"
    named.mkdir()
    for name in ("a", "b"):
        (named / name).touch()
    own = tmp_path / "own"
    own.touch()
    names = Namespaces(named, own)
    assert names.name((named / "a").stat().st_ino) == "a"
    assert names.name(own.stat().st_ino) == "-"
    assert names.name(1) == "net:[1]"
    (named / "late").touch()
    late = (named / "late").stat().st_ino
    assert names.name(late) == f"net:[{late}]"  # looked a moment ago
    monkeypatch.setattr(netns_names, "REFRESH_S", 0.0)
    assert names.name(late) == "late"


def test_no_named_ones(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.touch()
    assert Namespaces(tmp_path / "none", own).name(own.stat().st_ino) == "-"
