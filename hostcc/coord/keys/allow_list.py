"""The allow-list: members whose public files lie in one directory, read again on change.

The directory is polled, which also works on network file systems. An unreadable file is skipped
with its reason, and its member keeps the keys it had: only removing a file revokes them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostcc.coord.keys.files import SUFFIX, read_public
from hostcc.coord.keys.identity import Member, PublicKey, preferred
from hostcc.errors import InputError, one_line
from hostcc.log import get_logger
from hostcc.system.ownership import check_directory

log = get_logger("gossip")

CHECK_INTERVAL_S = 1.0
"""Seconds between checks of the directory, which show files added, removed or renamed."""
FILE_CHECK_INTERVAL_S = 10.0
"""Seconds between checks of every file, which show files written in place."""
MAX_MEMBERS = 20_000
MAX_WARNINGS = 8
"""Warnings logged for one reading; the others are counted."""

Stamp = tuple[int, int, int, int]


@dataclass(frozen=True)
class AllowList:
    """One reading of the directory."""

    members: Mapping[str, Member] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    """File name -> why it was skipped."""
    by_curve: Mapping[str, str] = field(default_factory=dict)
    """CURVE public key (hexadecimal) -> member."""

    def member_of(self, curve: str, now: float) -> str | None:
        """Return the owner of a key valid at `now` (seconds since the epoch); None: nobody."""
        name = self.by_curve.get(curve)
        if name is None:
            return None
        key = next(key for key in self.members[name].keys if key.curve == curve)
        return name if key.valid(now) else None

    def keys_of(self, name: str, now: float) -> tuple[PublicKey, ...]:
        """Return a member's valid keys, the one it should be using first; may be empty."""
        member = self.members.get(name)
        return preferred(member, now) if member is not None else ()

    def verifies(self, writer: str, message: bytes, signature: bytes, now: float) -> bool:
        """Return whether `writer` signed `message` with a key valid at `now`."""
        return any(key.verifies(message, signature) for key in self.keys_of(writer, now))


class AllowDirectory:
    """Keeps the list up to date with its directory."""

    def __init__(self, path: Path, quiet: bool = False) -> None:
        """`quiet`: log nothing; the caller shows AllowList.skipped itself."""
        self.path = path
        self._quiet = quiet
        self.list = AllowList()
        self.changes = 0
        """Number of changes of the list since the start."""
        self._files: dict[str, tuple[Stamp, Member | None, str]] = {}
        self._directory: tuple[int, int] | None = None
        self._next_look = 0.0
        self._next_files = 0.0
        self._trouble = ""

    def load(self) -> AllowList:
        """Read the list now. Raises InputError when the directory itself is unsuitable."""
        check_directory(self.path)
        self._directory = self._stamp()
        self._read()
        return self.list

    def tick(self, now: float) -> bool:
        """Check for changes if due (`now`: monotonic seconds); True: the list changed."""
        if now < self._next_look:
            return False
        self._next_look = now + CHECK_INTERVAL_S
        try:
            check_directory(self.path)
            stamp = self._stamp()
            if stamp == self._directory and now < self._next_files:
                return False
            self._next_files = now + FILE_CHECK_INTERVAL_S
            before = self.changes
            self._read()
            self._directory = stamp
        except (InputError, OSError) as error:
            if str(error) != self._trouble:  # once, not every second
                self._trouble = str(error)
                log.warning("allow-list not read, the old one stays", reason=one_line(str(error)))
            return False
        self._trouble = ""
        return self.changes != before

    def _stamp(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_ino, found.st_mtime_ns

    def _read(self) -> None:
        found: dict[str, tuple[Stamp, Member | None, str]] = {}
        changed = False
        for name, stamp in self._entries().items():
            old = self._files.get(name)
            if old is not None and old[0] == stamp:
                found[name] = old
                continue
            changed = True
            found[name] = self._take(name, stamp, old[1] if old is not None else None)
        if changed or found.keys() != self._files.keys() or not self.changes:
            self._files = found
            self._publish()

    def _entries(self) -> dict[str, Stamp]:
        entries: dict[str, Stamp] = {}
        with os.scandir(self.path) as scan:
            for entry in scan:
                if not entry.name.endswith(SUFFIX) or entry.name.startswith("."):
                    continue
                if len(entries) >= MAX_MEMBERS:
                    raise InputError(f"{self.path}: expected at most {MAX_MEMBERS} members")
                try:
                    at = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # gone in between
                    continue
                stamp = (at.st_ino, at.st_mtime_ns, at.st_size, at.st_ctime_ns)
                entries[entry.name] = stamp
        return dict(sorted(entries.items()))

    def _take(
        self, name: str, stamp: Stamp, old: Member | None
    ) -> tuple[Stamp, Member | None, str]:
        try:
            member = read_public(self.path / name)
            if f"{member.name}{SUFFIX}" != name:
                raise InputError(
                    f"{self.path / name}: name: expected {name.removesuffix(SUFFIX)!r:.80}, "
                    f"as the file, got {member.name!r}"
                )
        except InputError as error:
            return stamp, old, str(error)
        return stamp, member, ""

    def _publish(self) -> None:
        members: dict[str, Member] = {}
        by_curve: dict[str, str] = {}
        signers: set[str] = set()
        skipped: dict[str, str] = {}
        for name, (_, member, reason) in self._files.items():
            if reason:
                skipped[name] = reason
            if member is None:
                continue
            if any(key.curve in by_curve or key.sign in signers for key in member.keys):
                skipped[name] = f"{self.path / name}: key: expected one that no other member has"
                continue
            members[member.name] = member
            by_curve.update({key.curve: member.name for key in member.keys})
            signers.update(key.sign for key in member.keys)
        if not self._quiet:
            self._report({n: r for n, r in skipped.items() if self.list.skipped.get(n) != r})
            log.info("allow-list read", members=len(members), skipped=len(skipped))
        self.list = AllowList(members, skipped, by_curve)
        self.changes += 1

    def _report(self, fresh: Mapping[str, str]) -> None:
        for reason in list(fresh.values())[:MAX_WARNINGS]:
            log.warning("allow-list: file skipped", reason=reason)
        if len(fresh) > MAX_WARNINGS:
            log.warning("allow-list: more files skipped", files=len(fresh) - MAX_WARNINGS)
