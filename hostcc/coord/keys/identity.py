"""A member's keys: CURVE pairs for its connections, Ed25519 pairs for its records.

Records are relayed, hence two pairs: the connection proves who relays a record, the signature who
wrote it. A member may have several keys with their own periods of validity, so that it can change
keys while both are known everywhere.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import zmq
from msgspec import Meta, Struct
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey
from zmq.utils import z85

from hostcc.coord.member_name import MEMBER_NAME, MEMBER_NAME_WORDS
from hostcc.errors import InputError
from hostcc.system import toml_file
from hostcc.system.validate import convert

MAX_KEYS = 4
"""Keys of one member at a time: the current one, its successor, and two in reserve."""
MAX_FILE_BYTES = 8192
OVERLAP_MAX_S = 400 * 86400.0

Name = Annotated[str, Meta(pattern=MEMBER_NAME, description=MEMBER_NAME_WORDS)]
Hex32 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", description="64 hexadecimal digits")]


@dataclass(frozen=True)
class PublicKey:
    """The public part of one key."""

    curve: str
    """CURVE public key, 64 hexadecimal digits."""
    sign: str
    """Ed25519 public key, 64 hexadecimal digits."""
    starts: float
    """Seconds since the epoch from which its owner uses it; others accept it before that, too."""
    ends: float | None = None
    """Seconds since the epoch from which nobody accepts it; None: never."""

    @property
    def fingerprint(self) -> str:
        """Short hash of the CURVE half, by which people identify the key."""
        return fingerprint(self.curve)

    @property
    def sign_fingerprint(self) -> str:
        """Short hash of the half that signs records."""
        return fingerprint(self.sign)

    def valid(self, now: float) -> bool:
        """Return whether others accept it at `now` (seconds since the epoch)."""
        return self.ends is None or now < self.ends

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Return whether the owner of this key signed `message` (RFC 8032)."""
        try:
            VerifyKey(bytes.fromhex(self.sign)).verify(message, signature)
        except (BadSignatureError, ValueError, TypeError):
            return False
        return True


@dataclass(frozen=True)
class SecretKey:
    """One key of this host; its repr hides the secret halves, also in tracebacks."""

    public: PublicKey
    curve: str
    seed: str

    def __repr__(self) -> str:
        return f"SecretKey({self.public.fingerprint})"

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature of `message` (RFC 8032)."""
        return SigningKey(bytes.fromhex(self.seed)).sign(message).signature


@dataclass(frozen=True)
class Member:
    """A member's name and public keys."""

    name: str
    keys: tuple[PublicKey, ...]


@dataclass(frozen=True)
class HostKeys:
    """This host's name and secret keys."""

    name: str
    keys: tuple[SecretKey, ...]

    def current(self, now: float) -> SecretKey:
        """Return the key in use at `now`: the latest that has started, else the first to start."""
        return _current(self.keys, now)

    @property
    def member(self) -> Member:
        """The public part of these keys."""
        return Member(self.name, tuple(key.public for key in self.keys))


def fingerprint(half: str) -> str:
    """Return a key half's (hexadecimal) short name: 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(bytes.fromhex(half)).hexdigest()[:16]


def preferred(member: Member, now: float) -> tuple[PublicKey, ...]:
    """Return a member's keys that are valid at `now`, the one it should be using first."""
    valid = [key for key in member.keys if key.valid(now)]
    started = sorted((k for k in valid if k.starts <= now), key=lambda k: -k.starts)
    return (*started, *sorted((k for k in valid if k.starts > now), key=lambda k: k.starts))


def generate(now: float) -> SecretKey:
    """Return a new key that starts at `now`."""
    public, secret = (z85.decode(half).hex() for half in zmq.curve_keypair())
    signer = SigningKey.generate()
    key = PublicKey(public, bytes(signer.verify_key).hex(), float(int(now)))
    return SecretKey(key, secret, bytes(signer).hex())


def rotated(host: HostKeys, now: float, overlap: float) -> HostKeys:
    """Return `host` with a new key added: both are valid for `overlap` seconds.

    The new key takes over half-way through the overlap. Expired keys are dropped. Raises InputError
    when a rotation is under way.
    """
    kept = [key for key in host.keys if key.public.valid(now)]
    if any(key.public.starts > now for key in kept):
        raise InputError(f"{host.name}: expected no rotation under way; its new key waits to start")
    if len(kept) >= MAX_KEYS:
        raise InputError(f"{host.name}: expected at most {MAX_KEYS - 1} valid keys before another")
    until = float(int(now + overlap))
    old = tuple(
        SecretKey(_ended(key.public, until), key.curve, key.seed)
        if key.public.ends is None or key.public.ends > until
        else key
        for key in kept
    )
    return HostKeys(host.name, (*old, generate(now + overlap / 2)))


def public_text(member: Member) -> str:
    """Return the content of the public file."""
    lines = [
        f"# Public keys of {member.name}.  Put this file into the allow-list of every host:",
        "# hostcc keys allow FILE",
        f'name = "{member.name}"',
    ]
    for key in member.keys:
        lines += ["", "[[key]]", *_public_lines(key)]
    return "\n".join(lines) + "\n"


def secret_text(host: HostKeys) -> str:
    """Return the content of the secret file."""
    lines = [f"# SECRET keys of {host.name}: they stay on this host.", f'name = "{host.name}"']
    for key in host.keys:
        lines += ["", "[[key]]", *_public_lines(key.public)]
        lines += [f'curve_secret = "{key.curve}"', f'sign_seed = "{key.seed}"']
    return "\n".join(lines) + "\n"


def parse_public(raw: bytes, where: str) -> Member:
    """Return the member in a public file. Raises InputError, also for a secret file."""
    data = toml_file.parse(raw, where, MAX_FILE_BYTES)
    if any("_secret" in name for key in _tables(data) for name in key):
        raise InputError(f"{where}: expected public keys, got secret ones; keep them to yourself")
    found = convert(data, _PublicFile, where)
    return Member(found.name, _unique([_public(key, where) for key in found.key], where))


def parse_secret(raw: bytes, where: str) -> HostKeys:
    """Return the host's own keys in a secret file. Raises InputError."""
    found = convert(toml_file.parse(raw, where, MAX_FILE_BYTES), _SecretFile, where)
    keys = tuple(
        SecretKey(_public(key, where), key.curve_secret, key.sign_seed) for key in found.key
    )
    _unique([key.public for key in keys], where)
    for number, key in enumerate(keys):
        if not _halves_fit(key):
            raise InputError(f"{where}: key[{number}]: expected secret halves of the public ones")
    return HostKeys(found.name, keys)


class _PublicEntry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    curve: Hex32
    sign: Hex32
    starts: datetime
    ends: datetime | None = None


class _PublicFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: Name
    key: Annotated[tuple[_PublicEntry, ...], Meta(min_length=1, max_length=MAX_KEYS)]


class _SecretEntry(_PublicEntry, frozen=True, forbid_unknown_fields=True, kw_only=True):
    curve_secret: Hex32
    sign_seed: Hex32


class _SecretFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: Name
    key: Annotated[tuple[_SecretEntry, ...], Meta(min_length=1, max_length=MAX_KEYS)]


def _current(keys: Sequence[SecretKey], now: float) -> SecretKey:
    usable = [key for key in keys if key.public.valid(now)] or list(keys)
    started = [key for key in usable if key.public.starts <= now]
    if started:
        return max(started, key=lambda key: key.public.starts)
    return min(usable, key=lambda key: key.public.starts)


def _ended(key: PublicKey, until: float) -> PublicKey:
    return PublicKey(key.curve, key.sign, key.starts, until)


def _halves_fit(key: SecretKey) -> bool:
    public = z85.decode(zmq.curve_public(z85.encode(bytes.fromhex(key.curve)))).hex()
    signs = bytes(SigningKey(bytes.fromhex(key.seed)).verify_key).hex()
    return (public, signs) == (key.public.curve, key.public.sign)


def _public_lines(key: PublicKey) -> list[str]:
    lines = [f'curve = "{key.curve}"', f'sign = "{key.sign}"', f"starts = {_date(key.starts)}"]
    return lines if key.ends is None else [*lines, f"ends = {_date(key.ends)}"]


def _public(entry: _PublicEntry, where: str) -> PublicKey:
    starts = _seconds(entry.starts, f"{where}: key.starts")
    ends = None if entry.ends is None else _seconds(entry.ends, f"{where}: key.ends")
    return PublicKey(entry.curve, entry.sign, starts, ends)


def _unique(keys: Sequence[PublicKey], where: str) -> tuple[PublicKey, ...]:
    for half in ("curve", "sign"):
        if len({getattr(key, half) for key in keys}) != len(keys):
            raise InputError(f"{where}: key: expected each {half} key once")
    return tuple(keys)


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _seconds(at: datetime, where: str) -> float:
    if at.tzinfo is None:
        raise InputError(f"{where}: expected a date with its time zone, such as 2030-01-31T12:00Z")
    if at.year < 2000:
        raise InputError(f"{where}: expected a date from the year 2000 on")
    return at.timestamp()


def _tables(data: dict[str, object]) -> list[dict[str, object]]:
    keys = data.get("key")
    return [key for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []
