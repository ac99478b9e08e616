"""Answers of a congestion control that the kernel loses: what mend.bpf.h is there for.

Kernels with a patch for virtual machines run no BPF program while process 1 is the current one
(`init_owned` of struct bpf_prog_aux).  Then __bpf_prog_enter returns 0, and the trampoline returns
what was on its stack: often the return address of srso_alias_return_thunk.  Others return 1.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hostcc.bpf.loader.object import BpfObject

pytestmark = pytest.mark.kernel

SCRIPT = Path(__file__).with_name("lossy_loopback.py")
KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")
RETRANSMITS = 300
INFINITE = "2147483647"
"""No loss yet."""


def played(control: str) -> dict[str, int]:
    command = ["unshare", "--net", sys.executable, str(SCRIPT), control, str(RETRANSMITS)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, int] = json.loads(output)
    return found


def test_an_answer_is_what_was_answered(progs: Path) -> None:
    """The fault, where a kernel has it: a program that always answers 7 packets."""
    with BpfObject.open(progs / "answer.bpf.o", {"answer": "hcct_answer"}) as made:
        made.load()
        link = made.attach_struct_ops("answer")
        try:
            seen = played("hcct_answer")
        finally:
            link.close()
    assert "7" in seen
    odd = {hex(int(value)): count for value, count in seen.items() if value not in ("7", INFINITE)}
    print(f"{sum(seen.values())} looks, lost answers: {odd or 'none'}")
    if b"\0init_owned\0" not in KERNEL_TYPES.read_bytes():
        assert odd == {}
