"""Packaged objects: found, or a word on how to make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.bpf.loader import objects
from hostcc.bpf.loader.errors import BpfError


def test_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "HERE", tmp_path)
    (tmp_path / "thing.bpf.o").touch()
    assert objects.object_path("thing") == tmp_path / "thing.bpf.o"


def test_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "HERE", tmp_path)
    with pytest.raises(BpfError, match=r"not built; run python -m hostcc\.bpf\.build"):
        objects.object_path("thing")
