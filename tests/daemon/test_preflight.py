"""Names in the kernel, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.bpf.loader import libbpf
from hostcc.daemon import preflight
from hostcc.mltcp.kernel_names import TAG


def test_tags_are_stable_and_differ() -> None:
    tags = {preflight.tag(f"h{n}", Path(f"/tmp/{n}")) for n in range(100)}
    assert len(tags) == 100
    assert all(TAG.match(tag) for tag in tags)
    assert preflight.tag("host", Path("/run/hostcc")) == preflight.tag("host", Path("/run/hostcc"))
    assert preflight.tag("a", Path("/x")) != preflight.tag("a", Path("/y"))


def test_every_missing_thing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(preflight, "KERNEL_BTF", tmp_path / "none")
    monkeypatch.setattr(preflight, "_has_capability", lambda bit: False)
    monkeypatch.setattr(libbpf, "SONAME", "libbpf-none.so.1")
    libbpf.lib.cache_clear()
    problems = preflight.missing(str(tmp_path))
    words = " ".join(problems)
    libbpf.lib.cache_clear()
    assert len(problems) == 4
    assert "CAP_NET_ADMIN" in words
    assert "BTF" in words
    assert "libbpf (libbpf-none.so.1 1.1 or newer is needed" in words
    assert f"cgroup_root {tmp_path}: expected a cgroup v2 directory" in words
    line = str(preflight.refusal(problems))
    assert len(line.splitlines()) == 1
