"""The context of an image: what its recipe copies is in it, and a builder gets it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.packages import oci, tree

pytestmark = pytest.mark.unit


@pytest.fixture
def package(tmp_path: Path) -> Path:
    made = tmp_path / "hostcc_0.1.0-1+deb12_amd64.deb"
    made.write_bytes(b"a package")
    return made


def test_without_a_builder(tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oci, "BUILDERS", ())
    context = oci.build(tmp_path, package)
    recipe = (context / "Containerfile").read_text()
    copied = re.findall(r"^COPY (\S+) ", recipe, re.MULTILINE)
    assert copied == ["hostcc.deb"]
    assert (context / "hostcc.deb").read_bytes() == package.read_bytes()
    assert {path.name for path in context.iterdir()} == {"Containerfile", *copied}
    assert 'ENTRYPOINT ["/usr/bin/hostcc"]' in recipe


def test_a_builder_gets_the_context(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder, told = tmp_path / "builder", tmp_path / "told"
    builder.write_text(f'#!/bin/sh\necho "$@" >{told}\n')
    builder.chmod(0o755)
    monkeypatch.setattr(oci, "BUILDERS", (str(builder),))
    context = oci.build(tmp_path, package)
    assert told.read_text() == f"build --tag hostcc:{tree.version()} {context}\n"
