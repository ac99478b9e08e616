"""This host's keys, its allow-list and the certificates it knows, kept up to date with files."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hostcc.coord.core.payloads import REVOKED
from hostcc.coord.keys import files
from hostcc.coord.keys.allow_list import AllowDirectory, AllowList
from hostcc.coord.keys.certificate_book import CertificateBook
from hostcc.coord.keys.certificates import (
    Certificate,
    CertificateError,
    Refusal,
    Revocations,
    open_certificate,
)
from hostcc.coord.keys.identity import HostKeys, PublicKey, SecretKey
from hostcc.coord.keys.trust_directory import TrustDirectory
from hostcc.errors import InputError
from hostcc.log import get_logger

log = get_logger("gossip")

CHECK_INTERVAL_S = 1.0
PRUNE_INTERVAL_S = 600.0


@dataclass
class _Watched:
    """A file that may be written at any time, and what it was when it was read last."""

    path: Path
    stamp: tuple[int, int, int] = (0, 0, 0)

    def changed(self) -> bool:
        """Return whether the file is another one than at the last call."""
        try:
            found = self.path.stat()
            stamp = found.st_ino, found.st_mtime_ns, found.st_ctime_ns
        except OSError:
            stamp = 0, 0, 0
        before, self.stamp = self.stamp, stamp
        return stamp != before


class Keyring:
    """Signs for this host and verifies for others; the Signer and Verifier of signing.py.

    Only the constructor and `tick` read files, so that nothing else waits for a disk.
    """

    def __init__(self, directory: Path, wall: Callable[[], float] = time.time) -> None:
        """Read everything. Raises InputError; an invalid file of another member is only skipped."""
        self.directory = directory
        self._wall = wall
        self._secret = _Watched(directory / files.HOST_FILE)
        self._secret.changed()
        self._host = files.read_secret(directory)
        self._next_look = self._next_prune = 0.0
        self._allowed = AllowDirectory(files.allowed_directory(directory))
        self._allowed.load()
        self._trusted = TrustDirectory(files.authority_directory(directory))
        self._book = CertificateBook()
        self._news: list[bytes] = []
        """Signed certificates and lists that were learned since `take_news`."""
        self._certified = _Watched(directory / files.CERTIFICATE_FILE)
        self._own: Certificate | None = None
        self._read_trust()
        if self._certified.changed():
            self._own = read_certificate(directory, self._host, self._book)
            self._warn_unfit()
        self._current = self._choose()

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

    @property
    def certifies(self) -> bool:
        """Whether an authority is trusted, so that members may show certificates."""
        return bool(self._book.authorities)

    @property
    def certificate(self) -> Certificate | None:
        """This host's own certificate; None: it has none."""
        return self._own

    @property
    def revocations(self) -> dict[str, Revocations]:
        """Fingerprint of an authority -> its newest list of revoked certificates."""
        return self._book.revoked

    def has_file(self, revoked: Revocations) -> bool:
        """Return whether a list of revoked certificates is among this host's files."""
        return revoked.raw in self._trusted.trust.revocations

    def tick(self, now: float) -> bool:
        """Check files for changes (`now`: monotonic seconds); return True when somebody is accepted
        who was not, or the other way round.

        The key in use may have changed as well.
        """
        changed = self._allowed.tick(now)
        if now >= self._next_look:
            self._next_look = now + CHECK_INTERVAL_S
            trust_changed = self._read_trust()
            self._reread(trust_changed)
            changed |= trust_changed
            key = self._choose()
            if key.public.curve != self._current.public.curve:
                log.info("another key in use", fingerprint=key.public.fingerprint)
            self._current = key
            if now >= self._next_prune:
                self._next_prune = now + PRUNE_INTERVAL_S
                self._book.prune(self._wall())
        return changed

    def check(self, raw: bytes) -> Certificate:
        """Return a certificate that is accepted now. Raises CertificateError."""
        return self._book.check(raw, self._wall())

    def learn(self, raw: bytes) -> Certificate:
        """Accept a member's certificate. Raises CertificateError."""
        found, new = self._book.learn(raw, self._wall())
        if new:
            self._news.append(raw)
        return found

    def learn_revocations(self, raw: bytes) -> bool:
        """Accept a list of revoked certificates; return whether it was new.

        Raises CertificateError.
        """
        new = self._book.learn_revocations(raw)
        if new:
            self._news.append(raw)
            log.info("list of revoked certificates", number=self._number(raw))
        return new

    def learn_record(self, writer: str, kind: str, raw: bytes) -> str:
        """Consider what a record carries; return why it is refused, empty: it is accepted."""
        if not self.certifies:
            return ""  # this host accepts members by its allow-list only
        try:
            if kind == REVOKED:
                self.learn_revocations(raw)
            elif (found := self._book.check(raw, self._wall())).member.name == writer:
                self.learn(raw)
            else:
                return f"expected its own certificate, got the {found}"
        except CertificateError as error:
            listed = kind == REVOKED or bool(self.allowed.keys_of(writer, self._wall()))
            if error.reason is Refusal.UNKNOWN_AUTHORITY and listed:
                return ""  # of an authority that others trust
            return str(error)
        return ""

    def learn_any(self, raw: bytes) -> None:
        """Accept what another process of this host has learned; ignore what is not accepted."""
        for learn in (
            self._book.learn_revocations,
            lambda raw: self._book.learn(raw, self._wall()),
        ):
            try:
                learn(raw)
            except CertificateError:
                continue
            return

    def learned(self) -> list[bytes]:
        """Return all that was learned, for `learn_any` of a new process."""
        return self._book.raw()

    def take_news(self) -> list[bytes]:
        """Return what was learned since the last call, for `learn_any` elsewhere."""
        news, self._news = self._news, []
        return news

    def member_of(self, curve: str) -> str | None:
        """Return the member that owns a valid CURVE key (hexadecimal); None: nobody."""
        now = self._wall()
        return self.allowed.member_of(curve, now) or self._book.member_of(curve, now)

    def refusal(self, curve: str) -> str:
        """Return why the certificate for a key is not accepted now; empty: none is known."""
        return self._book.refusal(curve, self._wall())

    def curves_of(self, name: str) -> tuple[str, ...]:
        """Return a member's valid CURVE keys, the one it should be using first."""
        return tuple(dict.fromkeys(key.curve for key in self._keys_of(name)))

    def sign(self, data: bytes) -> bytes:
        """Return the signature of `data` by the key in use, 64 bytes."""
        return self._current.sign(data)

    def knows(self, writer: str) -> bool:
        """Return whether the writer is accepted with a valid key."""
        return bool(self._keys_of(writer))

    def verify(self, writer: str, data: bytes, signature: bytes) -> bool:
        """Return whether the signature is that of a writer that is accepted."""
        return any(key.verifies(data, signature) for key in self._keys_of(writer))

    def _keys_of(self, name: str) -> tuple[PublicKey, ...]:
        now = self._wall()
        return (*self.allowed.keys_of(name, now), *self._book.keys_of(name, now))

    def _choose(self) -> SecretKey:
        # With a certificate, of the keys that it names: the others may not know another one yet.
        host = self._host
        if self._own is not None and self._own.authority in self._book.authorities:
            named = {key.curve for key in self._own.member.keys}
            certified = tuple(key for key in host.keys if key.public.curve in named)
            if certified:
                host = HostKeys(host.name, certified)
        return host.current(self._wall())

    def _read_trust(self) -> bool:
        if not self._trusted.read():
            return False
        self._book.trust(self._trusted.trust.authorities)
        for raw in self._trusted.trust.revocations:
            try:
                self.learn_revocations(raw)
            except CertificateError as error:  # of an authority that is trusted no more
                log.warning("authorities: list not accepted", reason=str(error))
        names = [f"{one.name} {one.fingerprint}" for one in self._book.authorities.values()]
        log.info("authorities read", trusted=", ".join(names) or "none")
        return True

    def _reread(self, trust_changed: bool) -> None:
        if self._secret.changed():
            self._read_host()
        if self._certified.changed() or trust_changed:
            try:
                self._own = read_certificate(self.directory, self._host, self._book)
            except InputError as error:
                log.warning("own certificate not read, the old one stays", reason=str(error))
            else:
                self._warn_unfit()

    def _read_host(self) -> None:
        try:
            host = files.read_secret(self.directory)
        except InputError as error:
            log.warning("own keys not read, the old ones stay", reason=str(error))
            return
        if host.name != self._host.name:
            log.warning("own keys are of another name, the old ones stay", name=host.name)
            return
        self._host = host

    def _warn_unfit(self) -> None:
        own = self._own
        if own is None:
            return
        try:
            self._book.check(own.raw, self._wall())
        except CertificateError as error:
            log.warning("own certificate: others may refuse it", reason=str(error))

    def _number(self, raw: bytes) -> int:
        return next((one.number for one in self._book.revoked.values() if one.raw == raw), 0)


def read_certificate(directory: Path, host: HostKeys, book: CertificateBook) -> Certificate | None:
    """Return this host's certificate; None: there is none, or its authority is not trusted here.

    Raises InputError, also for another host's.
    """
    path = directory / files.CERTIFICATE_FILE
    if not path.exists():
        return None
    raw = files.read_signed(path, "certificate")
    try:
        return own_certificate(raw, host, book)
    except CertificateError as error:
        if error.reason is Refusal.UNKNOWN_AUTHORITY:
            log.warning("own certificate not used", reason=f"{path}: {error}")
            return None
        raise CertificateError(error.reason, f"{path}: {error}") from None


def own_certificate(raw: bytes, host: HostKeys, book: CertificateBook) -> Certificate:
    """Return a certificate if it is for a key of `host`. Raises CertificateError."""
    found = open_certificate(raw, book.authorities)
    own = {key.public.curve for key in host.keys}
    if found.member.name != host.name or own.isdisjoint(key.curve for key in found.member.keys):
        text = f"expected a certificate of {host.name} for a key in {files.HOST_FILE}, got the "
        raise CertificateError(Refusal.OTHER_HOST, f"{text}{found}")
    return found
