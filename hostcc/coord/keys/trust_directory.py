"""The authorities that this host trusts: DIR/authorities/*.pub, and lists of revoked certificates,
*.revoked.

It is polled as the allow-list is: a file that cannot be accepted is skipped with a warning and
counts as it was before; only a missing file is trusted no more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hostcc.coord.keys import files
from hostcc.coord.keys.certificates import Authority, CertificateError, open_revocations
from hostcc.errors import InputError, one_line
from hostcc.log import get_logger
from hostcc.system.ownership import check_directory

log = get_logger("gossip")

MAX_FILES = 32
"""Authorities and lists; a cluster needs two of each while it changes its authority."""

Stamp = tuple[int, int, int, int]


@dataclass(frozen=True)
class Trust:
    """One reading of the directory."""

    authorities: tuple[Authority, ...] = ()
    revocations: tuple[bytes, ...] = ()
    """Signed lists."""
    skipped: tuple[tuple[str, str], ...] = ()
    """(File name, why it was skipped)."""


class TrustDirectory:
    """Keeps the trusted authorities up to date with their directory, which need not exist."""

    def __init__(self, path: Path, quiet: bool = False) -> None:
        """`quiet`: log nothing; the caller shows Trust.skipped itself."""
        self.path = path
        self.trust = Trust()
        self._quiet = quiet
        self._stamps: dict[str, Stamp] = {}
        self._authorities: dict[str, Authority] = {}
        self._lists: dict[str, bytes] = {}
        self._told: set[tuple[str, str]] = set()

    def read(self) -> bool:
        """Read the directory if something in it has changed; return whether anything had."""
        try:
            stamps = self._entries()
        except (InputError, OSError) as error:
            self._tell((("", one_line(str(error))),))
            return False
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        skipped: list[tuple[str, str]] = []
        self._authorities = self._taken(files.SUFFIX, self._authorities, skipped)
        self._lists = self._lists_taken(skipped)
        authorities = tuple(self._authorities.values())
        self.trust = Trust(authorities, tuple(self._lists.values()), tuple(skipped))
        self._tell(self.trust.skipped)
        return True

    def _entries(self) -> dict[str, Stamp]:
        if not self.path.exists():
            return {}
        check_directory(self.path)
        found: dict[str, Stamp] = {}
        with os.scandir(self.path) as scan:
            for entry in scan:
                if entry.name.startswith(".") or not entry.name.endswith(files.TRUST_SUFFIXES):
                    continue
                if len(found) >= MAX_FILES:
                    raise InputError(f"{self.path}: expected at most {MAX_FILES} files")
                at = entry.stat(follow_symlinks=False)
                found[entry.name] = (at.st_ino, at.st_mtime_ns, at.st_size, at.st_ctime_ns)
        return dict(sorted(found.items()))

    def _taken(
        self, suffix: str, before: dict[str, Authority], skipped: list[tuple[str, str]]
    ) -> dict[str, Authority]:
        found: dict[str, Authority] = {}
        for name in self._stamps:
            if not name.endswith(suffix):
                continue
            try:
                found[name] = files.read_authority(self.path / name)
            except InputError as error:
                skipped.append((name, str(error)))
                if name in before:
                    found[name] = before[name]
        return found

    def _lists_taken(self, skipped: list[tuple[str, str]]) -> dict[str, bytes]:
        trusted = {one.fingerprint: one for one in self._authorities.values()}
        found: dict[str, bytes] = {}
        for name in self._stamps:
            if not name.endswith(files.REVOKED_SUFFIX):
                continue
            try:
                raw = files.read_signed(self.path / name, "revocations")
                open_revocations(raw, trusted)
                found[name] = raw
            except InputError as error:
                where = f"{self.path / name}: " if isinstance(error, CertificateError) else ""
                skipped.append((name, f"{where}{error}"))
                if name in self._lists:
                    found[name] = self._lists[name]
        return found

    def _tell(self, skipped: tuple[tuple[str, str], ...]) -> None:
        for one in skipped:
            if one not in self._told and not self._quiet:
                log.warning("authorities: file skipped", reason=one[1])
        self._told = set(skipped)
