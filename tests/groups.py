"""Cgroups that tests make: processes enter them, and they go."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from tests import patience


def entering(groups: Iterable[Path]) -> list[str]:
    """A command that enters cgroups and becomes the command after it."""
    script = 'for group in $1; do echo 0 >"$group/cgroup.procs"; done; shift; exec "$@"'
    return ["sh", "-c", script, "sh", " ".join(map(str, groups))]


def remove(root: Path) -> None:
    """Remove a group and all below it, as soon as its processes have ended."""
    groups = [path for path in (root, *root.rglob("*")) if path.is_dir()]
    for group in sorted(groups, key=lambda path: -len(path.parts)):
        patience.until(partial(_removed, group), f"{group} to be empty")


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
