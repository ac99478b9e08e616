"""The lab's subtree of cgroup v2: one group per lab host, so that nothing is left behind."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from hostcc.lab.errors import LabError


def create(path: Path) -> None:
    """Create a group and its parents."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from error


def processes(root: Path) -> list[int]:
    """Every process in a subtree."""
    found: list[int] = []
    for directory, _, _ in os.walk(root):
        try:
            text = (Path(directory) / "cgroup.procs").read_text()
        except OSError:
            continue
        found.extend(int(pid) for pid in text.split())
    return found


def empty(root: Path, patience_s: float = 30.0) -> None:
    """Kill every process of a subtree and remove the groups below its root.

    Raises LabError when it cannot be emptied within `patience_s` seconds.
    """
    deadline = time.monotonic() + patience_s
    while root.exists():
        for pid in processes(root):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if _remove_below(root) and not processes(root):
            return
        if time.monotonic() > deadline:
            raise LabError(f"{root}: still busy after {patience_s:g} s")
        time.sleep(0.01)


def remove(root: Path, patience_s: float = 30.0) -> None:
    """Empty a subtree and remove it; nothing happens when it is not there.

    Raises LabError when it cannot be emptied within `patience_s` seconds.
    """
    empty(root, patience_s)
    with suppress(FileNotFoundError):
        root.rmdir()


def _remove_below(root: Path) -> bool:
    """Remove the groups below; False while one of them is busy."""
    for directory, _, _ in os.walk(root, topdown=False):
        if directory == str(root):
            continue
        try:
            Path(directory).rmdir()
        except OSError:
            return False
    return True
