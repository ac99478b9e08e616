"""What keeps a script from tracing is said in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hostcc.bpf.loader.btf import Btf
from hostcc.errors import Exit
from tools.tracing import bcc_program
from tools.tracing.bcc_program import (
    Program,
    SetupError,
    headers_environment,
    kernel_btf,
    load_bcc,
    require_root,
    text_of,
)

unit = pytest.mark.unit


@unit
def test_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    require_root()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(SetupError, match="needs root") as caught:
        require_root()
    assert caught.value.exit_status == Exit.BAD_INPUT


@unit
def test_where_headers_come_from(tmp_path: Path) -> None:
    modules, archive, unpacked = tmp_path / "m", tmp_path / "a", tmp_path / "u/kernel"
    with pytest.raises(SetupError, match="tools/setup"):
        headers_environment({}, modules, archive, unpacked)
    (unpacked / "include").mkdir(parents=True)
    assert headers_environment({}, modules, archive, unpacked) == {
        "BCC_KERNEL_SOURCE": str(unpacked)
    }
    assert headers_environment({"BCC_KERNEL_SOURCE": "/x"}, modules, archive, unpacked) == {}
    archive.touch()
    assert headers_environment({}, modules, archive, unpacked) == {}
    archive.unlink()
    (modules / "build/include").mkdir(parents=True)
    assert headers_environment({}, modules, archive, unpacked) == {}


@unit
def test_no_bcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BCC_KERNEL_SOURCE", "/somewhere")
    monkeypatch.setitem(sys.modules, "bcc", None)
    with pytest.raises(SetupError, match="python3-bpfcc"):
        load_bcc()


@unit
@pytest.mark.parametrize("content", [None, b"", b"no BTF at all, but long enough to be one"])
def test_no_btf(content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vmlinux"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(bcc_program, "VMLINUX", path)
    with pytest.raises(SetupError, match="CONFIG_DEBUG_INFO_BTF"):
        kernel_btf()


@unit
def test_text() -> None:
    assert text_of(b"htb\0rest") == "htb"
    assert text_of(b"x" * 16) == "x" * 16


@pytest.mark.kernel
def test_a_program_that_does_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.bcc.c").write_text("nonsense")
    monkeypatch.setattr(bcc_program, "PROGRAMS", tmp_path)
    with pytest.raises(SetupError, match="could not load"):
        Program(["broken"], [], btf=kernel_btf())
    assert "nonsense" in capfd.readouterr().err


@pytest.mark.kernel
def test_what_it_holds_is_gone_afterwards() -> None:
    types: Btf = kernel_btf()
    with Program(["common", "qdisc"], [], {"IS_QDISC_DROP(r)": "0"}, btf=types) as program:
        assert program.rows("qdiscs") is not None
        assert program.raw_function("walk") > 0
    with Program(["common", "qdisc"], [], {"IS_QDISC_DROP(r)": "0"}, btf=types) as again:
        assert again.rows("leaves") == []
