"""What steering left behind is undone where it was made, and only if nobody else has changed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.daemon.changes import path_kinds
from hostcc.daemon.changes.steering_undo import network_namespace, undo
from hostcc.model import Change
from hostcc.paths import reserve

pytestmark = pytest.mark.unit

RANGE = "61000-65535"


@pytest.fixture
def sysctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "ip_local_reserved_ports"
    monkeypatch.setattr(reserve, "SYSCTL", file)
    return file


def ports(netns: int = 0, before: str = "8080") -> Change:
    return path_kinds.reserved_ports(before, f"{before},{RANGE}", netns or network_namespace())


def test_ports_are_written_back(sysctl: Path) -> None:
    sysctl.write_text(f"8080,{RANGE}\n")
    assert undo(ports()) == ""
    assert sysctl.read_text() == "8080\n"
    assert undo(ports()) == ""


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ("9090", "9090"),
        (f"8080,9090,{RANGE}", "8080,9090"),
        (RANGE, ""),
        ("8080,60000-65535", "8080,60000-60999"),
        ("8080,62000-63000", "8080"),
        ("8080 and more", "8080 and more"),
    ],
)
def test_what_somebody_else_wrote_stays(sysctl: Path, found: str, left: str) -> None:
    sysctl.write_text(f"{found}\n")
    why = undo(ports())
    assert why.startswith("ip_local_reserved_ports: expected") if "and" in found else why == ""
    assert sysctl.read_text() == f"{left}\n"


def test_ports_that_were_reserved_before_stay(sysctl: Path) -> None:
    sysctl.write_text("9090,60000-65535\n")
    change = path_kinds.reserved_ports("60000-62000", "60000-65535", network_namespace())
    assert undo(change) == ""
    assert sysctl.read_text() == "9090,60000-62000\n"


def test_another_namespace_is_left_alone(sysctl: Path) -> None:
    sysctl.write_text(f"8080,{RANGE}\n")
    assert "network namespace 1: run hostcc rollback there" in undo(ports(netns=1))
    assert sysctl.read_text() == f"8080,{RANGE}\n"
    assert "network namespace 1" in undo(path_kinds.hooks("eth0", 1))


def test_a_device_that_is_gone_has_no_hooks() -> None:
    assert undo(path_kinds.hooks("hcc-gone0", network_namespace())) == ""


def test_a_sysctl_that_cannot_be_read_is_said(sysctl: Path) -> None:
    assert "ip_local_reserved_ports" in undo(ports())
