"""Names in the kernel, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc import startup
from hostcc.mltcp.names import TAG


def test_tags_are_stable_and_differ() -> None:
    tags = {startup.tag(f"h{n}", Path(f"/tmp/{n}")) for n in range(100)}
    assert len(tags) == 100
    assert all(TAG.match(tag) for tag in tags)
    assert startup.tag("host", Path("/run/hostcc")) == startup.tag("host", Path("/run/hostcc"))
    assert startup.tag("a", Path("/x")) != startup.tag("a", Path("/y"))


def test_every_missing_thing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(startup, "KERNEL_BTF", tmp_path / "none")
    monkeypatch.setattr(startup, "_has_capability", lambda bit: False)
    problems = startup.missing(str(tmp_path))
    words = " ".join(problems)
    assert len(problems) == 3
    assert "CAP_NET_ADMIN" in words
    assert "BTF" in words
    assert f"cgroup_root {tmp_path}: expected a cgroup v2 directory" in words
    line = str(startup.refusal(problems))
    assert len(line.splitlines()) == 1
