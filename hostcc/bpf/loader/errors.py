"""Errors of libbpf, the kernel and this package."""

from __future__ import annotations

import errno as errno_codes
import os
import re
from pathlib import Path

_HINTS = {
    errno_codes.EPERM: "needs root (CAP_BPF, CAP_NET_ADMIN)",
    errno_codes.EACCES: "the verifier refused it",
}
_PROGRAM = re.compile(r"(prog '[^']*'): -- BEGIN PROG LOAD LOG --")
_STATISTICS = ("processed ", "verification time ", "stack depth ", "-- END", "max_states")


class BpfError(Exception):
    """A BPF object could not be read, loaded, attached or used.

    `args[0]` is one line for a person.  `log` is all that libbpf and the verifier
    said, possibly many lines, possibly empty.  `errno` is the system's error number,
    0 when the error is not the system's.  `path` is the object file, when there is one.
    """

    def __init__(
        self, message: str, *, errno: int = 0, log: str = "", path: Path | None = None
    ) -> None:
        super().__init__(" ".join(message.split()))
        self.errno = errno
        self.log = log
        self.path = path


def system_error(
    what: str, errno: int, *, log: str = "", path: Path | None = None, hint: bool = True
) -> BpfError:
    """Build the BpfError for a failed call: what was tried, why, libbpf's word on it."""
    parts = [f"{path}: {what}" if path else what]
    if complaint := _complaint(log):
        parts.append(complaint)
    reason = _strerror(errno)
    if hint and errno in _HINTS:
        reason += f"; {_HINTS[errno]}"
    return BpfError(f"{': '.join(parts)} ({reason})", errno=errno, log=log, path=path)


def _strerror(errno: int) -> str:
    # ENOTSUPP is the kernel's own and leaks to user space; C libraries do not know it.
    return "Operation not supported" if errno == 524 else os.strerror(errno)


def _complaint(log: str) -> str:
    # The one line of a libbpf log that says most: the verifier's last word, or libbpf's first.
    lines = [line.strip().removeprefix("libbpf: ") for line in log.splitlines() if line.strip()]
    for position, line in enumerate(lines):
        if line.endswith("END PROG LOAD LOG --"):
            said = [text for text in lines[:position] if not _is_statistic(text)]
            program = _PROGRAM.search(log)
            return f"{program[1] if program else 'a program'}: {said[-1]}"
    return lines[0] if lines else ""


def _is_statistic(line: str) -> bool:
    return line.startswith(_STATISTICS)
