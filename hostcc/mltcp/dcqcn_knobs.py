"""Reads and writes mlx5's DCQCN parameters: sysfs of NVIDIA's driver, or debugfs of the kernel's.

/sys/class/net/IF/ecn/roce_rp/rpg_time_reset (MLNX_OFED and DOCA),
/sys/kernel/debug/mlx5/BUS-ID/cc_params/rp_time_reset (drivers/infiniband/hw/mlx5/cong.c).

Every change is journalled before it is made, read back afterwards, and undone if it did not take
effect. Values that others have written since are left alone. Tested only against a directory tree
that mirrors the real one, for lack of such a NIC.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from hostcc.errors import HostccError
from hostcc.mltcp.dcqcn import BOUNDS, Knob, allowed, target_of
from hostcc.model import Change

SYS, DEBUG = Path("/sys"), Path("/sys/kernel/debug")
_INTERFACE = re.compile(r"^(?!\.{1,2}\Z)[^/\s]{1,15}\Z")
_NUMBER = re.compile(r"^\d{1,10}\Z")


class Journal(Protocol):
    """The part of hostcc.daemon.changes.journal that is needed here."""

    def making(self, *changes: Change) -> AbstractContextManager[None]:
        """Record changes on disk before the body makes them; undone if the body raises."""

    def undone(self, ids: Iterable[str], how: str) -> None:
        """Record that changes are no longer in force."""

    def note(self, target: str, text: str) -> None:
        """Record something that was noticed and left alone."""


class Knobs:
    """The parameters of this host's ports, by interface name."""

    def __init__(self, sys: Path = SYS, debug: Path = DEBUG) -> None:
        self._sys, self._debug = sys, debug

    def ports(self) -> tuple[str, ...]:
        """Return the interfaces whose parameters can be read."""
        try:
            names = sorted(entry.name for entry in (self._sys / "class/net").iterdir())
        except OSError:
            return ()
        return tuple(name for name in names if self.read(name))

    def read(self, port: str) -> dict[Knob, int]:
        """Return a port's parameters; empty: it has none, or reading is not permitted."""
        found = {}
        for knob in Knob:
            path = self._path(port, knob)
            if path is not None and (value := _number(path)) is not None:
                found[knob] = value
        return found

    def apply(self, changes: Sequence[Change], journal: Journal) -> None:
        """Make all changes or none. Raises HostccError."""
        made: list[Change] = []
        with journal.making(*changes):
            try:
                for change in changes:
                    made.append(change)
                    self.set(change, change.after if isinstance(change.after, int) else None)
            except HostccError:
                for change in reversed(made):
                    self._restore(change)
                raise

    def set(self, change: Change, value: int | None) -> None:
        """Write one of the values of a change in force; None: its first. Raises HostccError."""
        chosen = next(iter(change.after.values())) if isinstance(change.after, Mapping) else value
        chosen = chosen if value is None else value
        if not isinstance(chosen, int) or chosen not in allowed(change):
            wanted = " or ".join(map(str, sorted(allowed(change))))
            raise HostccError(f"{change.target}: expected {wanted}, got {value}")
        knob = target_of(change)[1]
        least, most = BOUNDS[knob]
        if not least <= chosen <= most:
            raise HostccError(f"{change.target}: expected {least} to {most}, got {chosen}")
        self._write(change, chosen)

    def undo(self, changes: Iterable[Change], journal: Journal) -> list[Change]:
        """Restore previous values; return the changes that failed, with a note of each."""
        left = []
        for change in changes:
            port, knob = target_of(change)
            now = self.read(port).get(knob)
            if now is None:
                journal.undone([change.id], "the port is gone")
            elif now not in {*allowed(change), change.before}:
                wanted = " or ".join(map(str, sorted(allowed(change))))
                journal.note(change.target, f"is {now}, not {wanted}: left alone")
                journal.undone([change.id], "somebody else set it")
            elif self._restore(change):
                journal.undone([change.id], "undone")
            else:
                left.append(change)
        return left

    def _restore(self, change: Change) -> bool:
        try:
            self._write(change, change.before)
        except HostccError:
            return False
        return True

    def _write(self, change: Change, value: object) -> None:
        port, knob = target_of(change)
        path = self._path(port, knob)
        if path is None or not isinstance(value, int) or isinstance(value, bool):
            raise HostccError(f"{change.target}: no such parameter")
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_TRUNC)
            try:
                os.write(fd, f"{value}\n".encode())
            finally:
                os.close(fd)
        except OSError as error:
            raise HostccError(f"{path}: {error.strerror}") from None
        found = _number(path)
        if found != value:
            raise HostccError(f"{path}: wrote {value}, reads {found}")

    def _path(self, port: str, knob: Knob) -> Path | None:
        if not _INTERFACE.match(port):
            return None
        interface = self._sys / "class/net" / port
        first = interface / "ecn/roce_rp" / f"rpg_{knob}"
        if first.is_file():
            return first
        try:
            bus = (interface / "device").resolve(strict=True).name
        except OSError:
            return None
        second = self._debug / "mlx5" / bus / "cc_params" / f"rp_{knob}"
        return second if second.is_file() else None


def _number(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            text = file.read(32).decode("ascii", "replace").strip()
    except OSError:
        return None
    return int(text) if _NUMBER.match(text) else None
