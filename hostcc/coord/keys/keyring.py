"""This host's keys and its allow-list in memory, kept up to date with their files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from hostcc.coord.keys import files
from hostcc.coord.keys.allow_list import AllowDirectory, AllowList
from hostcc.coord.keys.identity import SecretKey
from hostcc.errors import InputError
from hostcc.log import get_logger

log = get_logger("gossip")

CHECK_INTERVAL_S = 1.0


class Keyring:
    """Signs for this host and verifies for others; the Signer and Verifier of signing.py.

    Only the constructor and `tick` read files, so that nothing else waits for a disk.
    """

    def __init__(self, directory: Path, wall: Callable[[], float] = time.time) -> None:
        """Read everything. Raises InputError; an invalid file of another member is only skipped."""
        self.directory = directory
        self._wall = wall
        self._host = files.read_secret(directory)
        self._stamp = self._look()
        self._next_look = 0.0
        self._allowed = AllowDirectory(files.allowed_directory(directory))
        self._allowed.load()
        self._current = self._host.current(wall())

    @property
    def name(self) -> str:
        """Name of this host."""
        return self._host.name

    @property
    def current(self) -> SecretKey:
        """The key in use."""
        return self._current

    @property
    def allowed(self) -> AllowList:
        """The latest reading of the allow-list."""
        return self._allowed.list

    def tick(self, now: float) -> bool:
        """Check files for changes (`now`: monotonic seconds); return True when the allow-list
        changed.

        The key in use may have changed as well.
        """
        changed = self._allowed.tick(now)
        if now >= self._next_look:
            self._next_look = now + CHECK_INTERVAL_S
            self._reread()
            key = self._host.current(self._wall())
            if key.public.curve != self._current.public.curve:
                log.info("another key in use", fingerprint=key.public.fingerprint)
            self._current = key
        return changed

    def member_of(self, curve: str) -> str | None:
        """Return the member that owns a valid CURVE key (hexadecimal); None: nobody."""
        return self.allowed.member_of(curve, self._wall())

    def curves_of(self, name: str) -> tuple[str, ...]:
        """Return a member's valid CURVE keys, the one it should be using first."""
        return tuple(key.curve for key in self.allowed.keys_of(name, self._wall()))

    def sign(self, data: bytes) -> bytes:
        """Return the signature of `data` by the key in use, 64 bytes."""
        return self._current.sign(data)

    def knows(self, writer: str) -> bool:
        """Return whether the writer is on the list with a valid key."""
        return bool(self.allowed.keys_of(writer, self._wall()))

    def verify(self, writer: str, data: bytes, signature: bytes) -> bool:
        """Return whether the signature is that of a writer on the list."""
        return self.allowed.verifies(writer, data, signature, self._wall())

    def _look(self) -> tuple[int, int, int]:
        try:
            found = (self.directory / files.HOST_FILE).stat()
        except OSError:
            return 0, 0, 0
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns

    def _reread(self) -> None:
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            host = files.read_secret(self.directory)
        except InputError as error:
            log.warning("own keys not read, the old ones stay", reason=str(error))
            return
        if host.name != self._host.name:
            log.warning("own keys are of another name, the old ones stay", name=host.name)
            return
        self._host = host
