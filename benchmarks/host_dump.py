"""Everything of a lab host that an agent could change, as text to compare before and after.

tc, ip, sysctl, BPF programs at devices and cgroups, directories of cgroups.  The agent's own run
directory (journal, logs) is not part of it.
"""

from __future__ import annotations

import ctypes
import difflib
import os
import re
import socket
import subprocess
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from hostcc.bpf.loader.libbpf import lib
from hostcc.lab import netns
from hostcc.lab.errors import LabError

COMMANDS = (
    "tc qdisc show",
    "tc class show dev eth0",
    "tc filter show dev eth0",
    "tc filter show dev eth0 ingress",
    "tc filter show dev eth0 egress",
    "ip -d addr",
    "ip -d link",
    "ip rule",
    "ip -6 rule",
    "ip route show table all",
    "ip -6 route show table all",
    "sysctl -a",
)
UNSTEADY = re.compile(
    r"^(fs\.(aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota\.)"
    r"|kernel\.(hung_task_(detect_count|warnings)|ns_last_pid|pty\.nr|random\.|perf_|sched_|keys\."
    r"|tainted|bpf_stats)"
    r"|net\.netfilter\.nf_conntrack_count|vm\.stat)"
)
"""sysctls that change by themselves, or by what else the machine does."""
CONTROLS = re.compile(r"\bhcc_\w+ ?")
"""Congestion controls are one list for the whole machine; other agents' are none of ours."""
ATTACH_TYPES = range(64)
TCX = {46: "ingress", 47: "egress"}
MOST = 64


def dump(namespace: str, cgroup: Path, tag: str) -> dict[str, str]:
    """What is looked at -> text.  `tag`: of the agent's own congestion controls (startup.tag).

    Raises LabError.
    """
    found = {line: run(namespace, line) for line in COMMANDS}
    rows = (row for row in found["sysctl -a"].splitlines() if not UNSTEADY.match(row))
    found["sysctl -a"] = "\n".join(_controls(row, tag) for row in rows)
    found["bpf at devices"] = "\n".join(netns.inside(namespace, lambda: [*_at_devices()]))
    found["bpf at cgroups"] = "\n".join(_at_cgroups(cgroup))
    below = sorted(str(one.relative_to(cgroup)) for one in cgroup.rglob("*") if one.is_dir())
    found["cgroups"] = "\n".join(below)
    # The kernel makes sure of its link-local addresses meanwhile.
    return {what: text.replace(" tentative", "") for what, text in found.items()}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Lines that were there before (-) or are now (+), with what they are of."""
    return [
        f"{what}: {line}"
        for what in before
        for line in difflib.ndiff(before[what].splitlines(), after[what].splitlines())
        if line[:2] in {"- ", "+ "}
    ]


def run(namespace: str, line: str) -> str:
    """What a command says there.  Raises LabError."""
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, *line.split()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    # Some sysctls cannot be read; what can is printed all the same.
    if done.returncode and not line.startswith("sysctl"):
        raise LabError(f"{line}: {' '.join(done.stderr.split())}")
    return done.stdout


def _controls(row: str, tag: str) -> str:
    keep = partial(_ours, tag=tag)
    return CONTROLS.sub(keep, row).rstrip() if "congestion_control" in row else row


def _ours(found: re.Match[str], tag: str) -> str:
    return found[0] if found[0].startswith(f"hcc_{tag}_") else ""


def _at_devices() -> Iterable[str]:
    for index, name in socket.if_nameindex():
        for kind, hook in TCX.items():
            yield from (f"{name} {hook} program {number}" for number in _query(index, kind))


def _at_cgroups(root: Path) -> Iterable[str]:
    for group in (root, *(one for one in root.rglob("*") if one.is_dir())):
        fd = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for kind in ATTACH_TYPES:
                yield from (f"{group} type {kind} program {n}" for n in _query(fd, kind))
        finally:
            os.close(fd)


def _query(target: int, kind: int) -> list[int]:
    """Ids of programs; none where there is no such hook."""
    ids, count = (ctypes.c_uint32 * MOST)(), ctypes.c_uint32(MOST)
    result = lib().bpf_prog_query(target, kind, 0, None, ids, ctypes.byref(count))
    return list(ids[: count.value]) if result == 0 else []
