"""Offsets of the running kernel, and kernels that are not as expected."""

from __future__ import annotations

import re

import pytest

from hostcc.bpf.loader.btf import Btf
from tools.tracing import kernel_layout
from tools.tracing.bcc_program import PROGRAMS, kernel_btf
from tools.tracing.kernel_layout import (
    FIELDS,
    TRACEPOINTS,
    Field,
    LayoutError,
    check_tracepoint,
    defines,
    drop_reasons,
)

pytestmark = pytest.mark.kernel

SOURCE = "\n".join(path.read_text() for path in sorted(PROGRAMS.glob("*.c")))


@pytest.fixture(scope="module")
def btf() -> Btf:
    return kernel_btf()


def test_every_macro_of_every_program(btf: Btf) -> None:
    found = defines(btf, SOURCE)
    used = set(re.findall(r"\b[OS]_[A-Z0-9_]+\b", SOURCE))
    assert used == set(found) == set(FIELDS) | set(kernel_layout.SIZES)
    # What has been so since long before BTF: tests of the kernel assert it, too.
    assert found["O_SK_DADDR"] == 0
    assert found["O_SK_SADDR"] == 4
    assert found["O_SK_DPORT"] == 12
    assert found["O_SK_FAMILY"] == 16
    assert found["O_SKB_NEXT"] == 0
    assert found["O_SKB_ACK"] > defines(btf, "O_SKB_DEV")["O_SKB_DEV"]


def test_only_what_is_used(btf: Btf) -> None:
    assert defines(btf, "READ(x, sk, O_SK_NUM) O_UNKNOWN") == {"O_SK_NUM": 14}


def test_every_tracepoint(btf: Btf) -> None:
    for name in TRACEPOINTS:
        check_tracepoint(btf, name)
    probes = set(re.findall(r"RAW_TRACEPOINT_PROBE\((\w+)\)", SOURCE))
    assert probes == set(TRACEPOINTS)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (Field((("sock_common", "skc_nonsense"),), 2), "struct sock_common has no skc_nonsense"),
        (Field((("sock_common", "skc_num.x"),), 2), "struct sock_common has no skc_num.x"),
        (Field((("nonsense", "x"),), 2), "no struct nonsense"),
        (Field((("sock_common", "skc_num"),), 4), "expected 4 bytes, this kernel has 2"),
    ],
)
def test_another_kernel(
    btf: Btf, field: Field, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIELDS, "O_SK_NUM", field)
    with pytest.raises(LayoutError, match=message):
        defines(btf, SOURCE)


def test_other_tracepoints(btf: Btf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRACEPOINTS, "tcp_probe", ("sk_buff",))
    with pytest.raises(LayoutError, match="tracepoint tcp_probe: expected"):
        check_tracepoint(btf, "tcp_probe")
    monkeypatch.setitem(TRACEPOINTS, "tcp_probe", ("sock", "sk_buff", None))
    with pytest.raises(LayoutError, match="tracepoint tcp_probe: expected"):
        check_tracepoint(btf, "tcp_probe")
    monkeypatch.setitem(TRACEPOINTS, "hostcc_nonsense", ())
    with pytest.raises(LayoutError, match="no tracepoint hostcc_nonsense"):
        check_tracepoint(btf, "hostcc_nonsense")


def test_drop_reasons(btf: Btf) -> None:
    assert drop_reasons(btf, "QDISC")
    assert drop_reasons(btf, "NONSENSE") == ()
