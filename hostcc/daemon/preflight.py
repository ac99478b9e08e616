"""What the agent needs before it can change anything, and its name in the kernel."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hostcc.bpf.loader import libbpf
from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.features import KERNEL_BTF
from hostcc.errors import HostccError
from hostcc.system.cgroups import resolve_root

NEEDED_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def missing(cgroup_root: str) -> list[str]:
    """List what this host lacks for an agent to change it, each with the remedy.

    Whether the kernel has struct_ops is not tried here: registering is the test.
    """
    lacks = [name for name, bit in NEEDED_CAPABILITIES.items() if not _has_capability(bit)]
    problems = []
    if lacks:
        problems.append(f"root ({', '.join(lacks)} missing): start it as root")
    if not KERNEL_BTF.exists():
        problems.append(f"BTF ({KERNEL_BTF} missing): a kernel with CONFIG_DEBUG_INFO_BTF=y")
    try:
        libbpf.lib()
    except BpfError as error:
        problems.append(f"libbpf ({error})")
    try:
        resolve_root(cgroup_root)
    except HostccError as error:
        problems.append(f"cgroup v2 ({error})")
    return problems


def refusal(problems: list[str]) -> HostccError:
    """The one line for an agent that cannot work here."""
    return HostccError(
        f"cannot change this host, it lacks: {'; '.join(problems)}. Still works: `hostcc run` "
        "(without effect), `hostcc doctor`, `hostcc agent --observe-only` (status, jobs, flows)"
    )


def tag(instance: str, run_dir: Path) -> str:
    """Make the four characters that tell this agent's congestion controls from another's.

    Names of congestion controls are global to the kernel and at most 15 bytes long; the
    same agent gets the same name in every run.
    """
    digest = hashlib.sha256(f"{instance}\0{run_dir.resolve()}".encode()).digest()
    number = int.from_bytes(digest[:8], "big")
    letters = []
    for _ in range(4):
        number, digit = divmod(number, len(_DIGITS))
        letters.append(_DIGITS[digit])
    return "".join(letters)


def _has_capability(bit: int) -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> bit & 1)
    return False
