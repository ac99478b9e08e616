"""libbpf's words are collected by whoever asked, and by nobody else."""

from __future__ import annotations

import pytest

from hostcc.bpf.loader import libbpf
from hostcc.bpf.loader.errors import BpfError


def provoke() -> None:
    libbpf.lib().bpf_object__open_mem(b"\x7fELFgarbage", 11, None)


def test_collected() -> None:
    with libbpf.listening() as said:
        provoke()
    assert said
    assert all(line.startswith("libbpf: ") for line in said)


def test_collected_after_others_have_taken_the_messages() -> None:
    libbpf.lib().libbpf_set_print(libbpf._PRINT_FN())
    test_collected()


def test_silent_otherwise(capfd: pytest.CaptureFixture[str]) -> None:
    provoke()
    assert capfd.readouterr() == ("", "")


def test_listeners_nest() -> None:
    with libbpf.listening() as outer:
        provoke()
        before = list(outer)
        with libbpf.listening() as inner:
            provoke()
        assert outer == before
        provoke()
    assert inner == before
    assert outer == before * 2


def test_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libbpf, "SONAME", "libbpf.so.99")
    libbpf.lib.cache_clear()
    try:
        with pytest.raises(BpfError, match=r"libbpf\.so\.99 .*install the package libbpf1"):
            libbpf.lib()
    finally:
        monkeypatch.undo()
        libbpf.lib.cache_clear()
        libbpf.lib()
