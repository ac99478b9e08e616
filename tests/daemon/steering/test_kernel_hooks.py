"""What steering reserves, beside what an earlier agent has left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.changes import path_kinds
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.steering import kernel_hooks as module
from hostcc.daemon.steering.kernel_hooks import KernelHooks
from hostcc.paths import reserve

pytestmark = pytest.mark.unit


@pytest.fixture
def sysctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "ip_local_reserved_ports"
    file.write_text("8080\n")
    kernel = SimpleNamespace(arriving=list, close=lambda: None)
    monkeypatch.setattr(reserve, "SYSCTL", file)
    monkeypatch.setattr(module, "SteerKernel", lambda *_, **__: kernel)
    monkeypatch.setattr(module, "Steering", lambda *_, **__: SimpleNamespace(revert_all=list))
    return file


def hooks(journal: Journal, first: int, last: int) -> KernelHooks:
    config = PathsConfig(first_port=first, last_port=last)
    return KernelHooks(config, (), journal, lambda *_: None, lambda _: "", lambda _: True)


@pytest.mark.parametrize("first", [61000, 62000])
def test_a_range_of_an_earlier_agent_is_not_taken_for_the_hosts_own(
    tmp_path: Path, sysctl: Path, first: int
) -> None:
    journal = Journal(tmp_path)
    journal.open()
    asyncio.run(hooks(journal, 61000, 61999).up())  # and is killed
    assert sysctl.read_text() == "8080,61000-61999\n"
    again = hooks(journal, first, first + 999)
    asyncio.run(again.up())
    assert sysctl.read_text() == f"8080,{first}-{first + 999}\n"
    assert journal.active[path_kinds.PORTS].before == "8080"
    assert asyncio.run(again.down(lambda: None)) == []
    assert sysctl.read_text() == "8080\n"
    assert journal.active == {}


def test_what_somebody_else_reserved_meanwhile_stays(tmp_path: Path, sysctl: Path) -> None:
    journal = Journal(tmp_path)
    journal.open()
    asyncio.run(hooks(journal, 61000, 61999).up())
    sysctl.write_text("9090\n")
    again = hooks(journal, 62000, 62999)
    asyncio.run(again.up())
    assert sysctl.read_text() == "9090,62000-62999\n"
    assert asyncio.run(again.down(lambda: None)) == []
    assert sysctl.read_text() == "9090\n"
