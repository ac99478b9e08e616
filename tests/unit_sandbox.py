"""What packaging/hostcc.service takes from the agent, without systemd: `within()` before a command.

Applied as systemd.exec(5) describes it: capabilities, system calls by libseccomp, namespaces,
address families, umask.  Mounts (ProtectSystem= and its like) are left to a machine with systemd.
"""

from __future__ import annotations

import configparser
import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

UNIT = Path(__file__).resolve().parents[1] / "packaging/hostcc.service"
CAPABILITIES = {
    "CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_DAC_READ_SEARCH": 2, "CAP_NET_BIND_SERVICE": 10,
    "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21,
    "CAP_SYS_RESOURCE": 24, "CAP_PERFMON": 38, "CAP_BPF": 39,
}  # fmt: skip
"""Numbers of those that the unit keeps (linux/capability.h)."""
LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1
"""libseccomp's actions: SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM)."""
EQUAL, MASKED = 4, 7
NAMESPACES = {
    "cgroup": 0x02000000, "ipc": 0x08000000, "net": 0x40000000, "mnt": 0x00020000,
    "pid": 0x20000000, "user": 0x10000000, "uts": 0x04000000,
}  # fmt: skip
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
LAST_FAMILY = 45


class Condition(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operation", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


class Filter:
    """One seccomp filter; that which refuses wins."""

    def __init__(self, otherwise: int) -> None:
        self._library = ctypes.CDLL("libseccomp.so.2")
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(otherwise)))

    def rule(self, action: int, name: str, *conditions: Condition) -> None:
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return  # of another architecture
        array = (Condition * len(conditions))(*conditions)
        failed = self._library.seccomp_rule_add_array(
            self._context, ctypes.c_uint32(action), number, len(conditions), array
        )
        assert failed == 0, (name, failed)

    def load(self) -> None:
        assert self._library.seccomp_load(self._context) == 0


def settings() -> dict[str, list[str]]:
    """[Service] of the unit, word by word; what stands twice is joined."""
    found: dict[str, list[str]] = {}
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    for key, value in parser["Service"].items():
        found[key] = value.split()
    return found


@cache
def _group(name: str) -> tuple[str, ...]:
    listed = subprocess.run(
        ["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return tuple(words[0] for line in listed[1:] if (words := line.split()) and words[0] != "#")


def system_calls(words: Iterable[str]) -> set[str]:
    """Names in a SystemCallFilter= of what is allowed."""
    found: set[str] = set()
    for word in [*words, "@default"]:
        found |= system_calls_of(word)
    return found


def system_calls_of(word: str) -> set[str]:
    """Those of a group, or the one that is named."""
    if not word.startswith("@"):
        return {word}
    return {name for one in _group(word) for name in system_calls_of(one)}


def within(*without: str) -> list[str]:
    """Words before a command that is to run as in the unit, and without some capabilities."""
    return [sys.executable, "-I", str(Path(__file__).resolve()), ",".join(without) or "-"]


def _drop_capabilities(kept: set[int]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(int(LAST_CAPABILITY.read_text()) + 1):
        if number not in kept:
            assert libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


def _restrict_namespaces(kept: list[str]) -> None:
    made = Filter(ALLOW)
    for name, flag in NAMESPACES.items():
        if name in kept:
            continue
        for call, argument in (("unshare", 0), ("clone", 0), ("setns", 1)):
            made.rule(REFUSE, call, Condition(argument, MASKED, flag, flag))
    made.rule(REFUSE, "setns", Condition(1, EQUAL, 0))
    made.load()


def _restrict_families(kept: list[str]) -> None:
    made = Filter(ALLOW)
    allowed = {FAMILIES[name] for name in kept}
    for number in set(range(LAST_FAMILY + 1)) - allowed:
        made.rule(REFUSE, "socket", Condition(0, EQUAL, number))
    made.load()


def _filter_system_calls(allowed: set[str]) -> None:
    made = Filter(REFUSE)
    for name in allowed:
        made.rule(ALLOW, name)
    made.load()


def main() -> None:
    """Take away what the unit takes, then become the command."""
    without, *command = sys.argv[1:]
    unit = settings()
    kept = set(unit["CapabilityBoundingSet"]) - set(without.split(","))
    allowed = system_calls(unit["SystemCallFilter"])
    os.umask(int(unit["UMask"][0], 8))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = min(hard, int(unit["LimitNOFILE"][0]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, files), files))
    _drop_capabilities({CAPABILITIES[name] for name in kept})
    _restrict_namespaces(unit["RestrictNamespaces"])
    _restrict_families(unit["RestrictAddressFamilies"])
    _filter_system_calls(allowed)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
