"""Linux 6.1, the oldest kernel that hostcc promises: Debian 12's own, in a virtual machine.

Objects compiled here are loaded there unchanged.
"""

from __future__ import annotations

import platform
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import NOT_HERE
from tests.vm import machine

ADAPTER = """
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.params import JobParams, Variant
from tests.bpf.congestion import eventually_gone, registered
for attempt in range(2):
    kernel = MltcpKernel("vmvm", list(Variant), 1.5)
    names = list(kernel.ca_names.values())
    assert all(map(registered, names)), names
    kernel.set_job(1, JobParams(name="job"))
    kernel.beat()
    assert kernel.check() == []
    assert len(kernel.job_states()) > 1
    kernel.close()
    assert all(map(eventually_gone, names)), names
print("adapter works")
"""


def debian_12() -> bool:
    release = Path("/etc/os-release")
    text = release.read_text() if release.exists() else ""
    return platform.machine() == "x86_64" and "VERSION_CODENAME=bookworm" in text


pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(3600),  # a guest that is stuck ends earlier: it says nothing any more
    pytest.mark.skipif(not debian_12(), reason=f"{NOT_HERE} Debian 12's kernel package"),
    pytest.mark.skipif(
        not (machine.KERNEL_TREE / "boot").exists() or not shutil.which("qemu-system-x86_64"),
        reason="no kernel and emulator; tools/setup --with-vm gets them",
    ),
]


def finished(command: list[str]) -> str:
    outcome = machine.run(command)
    assert outcome.status == 0, machine.described(outcome)
    return outcome.output


def test_loader() -> None:
    output = finished(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "kernel",
         "tests/bpf"]
    )  # fmt: skip
    assert " passed" in output


def test_adapter() -> None:
    output = finished(["sh", "-c", f"uname -r; exec {sys.executable} -c {shlex.quote(ADAPTER)}"])
    assert output.startswith("6.1.")
    assert output.endswith("adapter works\n")
