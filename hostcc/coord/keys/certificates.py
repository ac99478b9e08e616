"""Certificates of hosts and lists of revoked ones, signed by an authority of the cluster (Ed25519).

A member that trusts an authority accepts every host that the authority has certified, so that a new
host needs a file on itself only. Everything here takes bytes and returns values: no I/O, no clock.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from hostcc.coord.core.payloads import MAX_CERTIFICATE, MAX_REVOCATIONS
from hostcc.coord.keys.identity import MAX_KEYS, Hex32, Member, Name, PublicKey, fingerprint
from hostcc.errors import InputError
from hostcc.system import toml_file
from hostcc.system.validate import convert

MAX_REVOKED = 2048
"""Revoked certificates of one authority; those that have ended anyway leave the list."""
MAX_TEXT = 24 * 1024
"""Bytes of a file with a certificate or a list in it."""
SERIAL_MAX = 2**32 - 1
TIME_MAX = 2**40
SIGNATURE = 64
_CERTIFICATE, _REVOCATIONS = b"hostcc certificate 1\0", b"hostcc revocations 1\0"
"""What is signed begins with its purpose, so that no signature serves another one."""


class Refusal(StrEnum):
    """Why a certificate or a list is refused."""

    DAMAGED = "damaged"
    """No certificate: truncated, too long, or of another form."""
    UNKNOWN_AUTHORITY = "unknown_authority"
    FORGED = "forged"
    """The signature is not the authority's."""
    NOT_YET = "not_yet"
    ENDED = "ended"
    REVOKED = "revoked"
    OTHER_HOST = "other_host"
    """Another host's certificate than that of the host that shows it."""


class CertificateError(InputError):
    """A certificate or list that is refused; `reason` names the kind, the text says it in words."""

    def __init__(self, reason: Refusal, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True)
class Authority:
    """The public half of an authority."""

    name: str
    sign: str
    """Ed25519 public key, 64 hexadecimal digits."""

    @property
    def fingerprint(self) -> str:
        """Short hash of the key, by which certificates name their authority."""
        return fingerprint(self.sign)


@dataclass(frozen=True)
class AuthorityKeys:
    """An authority with its secret half, which its repr hides."""

    public: Authority
    seed: str

    def __repr__(self) -> str:
        return f"AuthorityKeys({self.public.fingerprint})"


@dataclass(frozen=True)
class Certificate:
    """An authority's statement that a member has these keys."""

    member: Member
    serial: int
    starts: int
    """Seconds since the epoch, also the order in which certificates of one member replace others.
    """
    ends: int
    authority: str
    """Fingerprint of the authority."""
    raw: bytes
    """The signed form, as it travels."""

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: the one with the greater key replaces the other."""
        return self.starts, self.serial

    def __str__(self) -> str:
        return f"certificate of {self.member.name}, serial {self.serial}"


@dataclass(frozen=True)
class Revocations:
    """The serial numbers that an authority has revoked; a greater number replaces the list."""

    number: int
    serials: frozenset[int]
    authority: str
    raw: bytes


Bytes32 = Annotated[bytes, Meta(min_length=32, max_length=32)]
Time = Annotated[int, Meta(ge=0, le=TIME_MAX)]
Serial = Annotated[int, Meta(ge=1, le=SERIAL_MAX)]
Fingerprint = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]


class _Key(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    curve: Bytes32
    sign: Bytes32
    starts: Time
    ends: Time | None


class _Body(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    member: Name
    keys: Annotated[tuple[_Key, ...], Meta(min_length=1, max_length=MAX_KEYS)]
    serial: Serial
    starts: Time
    ends: Time
    authority: Fingerprint


class _Revoked(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    number: Serial
    serials: Annotated[tuple[Serial, ...], Meta(max_length=MAX_REVOKED)]
    authority: Fingerprint


class _Signed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    body: Annotated[bytes, Meta(max_length=MAX_REVOCATIONS)]
    signature: Annotated[bytes, Meta(min_length=SIGNATURE, max_length=SIGNATURE)]


class _AuthorityFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    authority: Name
    sign: Hex32


class _AuthoritySecret(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    authority: Name
    sign: Hex32
    sign_seed: Hex32


_T = TypeVar("_T")
_encoder = msgspec.msgpack.Encoder()
_signed = msgspec.msgpack.Decoder(_Signed)
_body = msgspec.msgpack.Decoder(_Body)
_revoked = msgspec.msgpack.Decoder(_Revoked)


def new_authority(name: str) -> AuthorityKeys:
    """Return a new authority."""
    signer = SigningKey.generate()
    return AuthorityKeys(Authority(name, bytes(signer.verify_key).hex()), bytes(signer).hex())


def certify(
    authority: AuthorityKeys, member: Member, serial: int, starts: float, ends: float
) -> Certificate:
    """Return a certificate for a member's public keys."""
    keys = tuple(
        _Key(
            bytes.fromhex(key.curve),
            bytes.fromhex(key.sign),
            int(key.starts),
            None if key.ends is None else int(key.ends),
        )
        for key in member.keys
    )
    by = authority.public.fingerprint
    body = _encoder.encode(_Body(member.name, keys, serial, int(starts), int(ends), by))
    raw = _sign(authority, _CERTIFICATE, body)
    return open_certificate(raw, {by: authority.public})


def revoke(authority: AuthorityKeys, number: int, serials: frozenset[int]) -> Revocations:
    """Return a signed list of revoked certificates."""
    by = authority.public.fingerprint
    body = _encoder.encode(_Revoked(number, tuple(sorted(serials)), by))
    return open_revocations(_sign(authority, _REVOCATIONS, body), {by: authority.public})


def open_certificate(raw: bytes, trusted: Mapping[str, Authority]) -> Certificate:
    """Return the certificate in `raw`, signed by one of `trusted` (by fingerprint).

    Raises CertificateError. Validity in time and revocation are the caller's to check.
    """
    body, signed = _open(raw, MAX_CERTIFICATE, _body, "a certificate")
    _check(body.authority, _CERTIFICATE, signed, trusted, f"certificate of {body.member}")
    member = Member(
        body.member,
        tuple(
            PublicKey(key.curve.hex(), key.sign.hex(), float(key.starts), _float(key.ends))
            for key in body.keys
        ),
    )
    return Certificate(member, body.serial, body.starts, body.ends, body.authority, raw)


def open_revocations(raw: bytes, trusted: Mapping[str, Authority]) -> Revocations:
    """Return the list in `raw`, signed by one of `trusted`. Raises CertificateError."""
    body, signed = _open(raw, MAX_REVOCATIONS, _revoked, "a list of revoked certificates")
    _check(body.authority, _REVOCATIONS, signed, trusted, "list of revoked certificates")
    return Revocations(body.number, frozenset(body.serials), body.authority, raw)


def check_valid(found: Certificate, revoked: Revocations | None, now: float) -> None:
    """Raise CertificateError unless a certificate is accepted at `now`."""
    if revoked is not None and found.serial in revoked.serials:
        raise CertificateError(Refusal.REVOKED, f"{found}: revoked by its authority")
    if now >= found.ends:
        text = f"{found}: ended at {date(found.ends)}; have its keys signed again"
        raise CertificateError(Refusal.ENDED, text)
    if now < found.starts:
        text = f"{found}: starts at {date(found.starts)}; compare the hosts' clocks"
        raise CertificateError(Refusal.NOT_YET, text)


def authority_text(authority: Authority) -> str:
    """Return the content of an authority's public file."""
    return (
        f"# Authority {authority.name}, {authority.fingerprint}. On every host that shall accept\n"
        "# the hosts that it certifies: hostcc keys add FILE\n"
        f'authority = "{authority.name}"\nsign = "{authority.sign}"\n'
    )


def authority_secret_text(authority: AuthorityKeys) -> str:
    """Return the content of an authority's secret file."""
    public = authority.public
    return (
        f"# SECRET key of authority {public.name}: whoever has it can make members.\n"
        f'authority = "{public.name}"\nsign = "{public.sign}"\nsign_seed = "{authority.seed}"\n'
    )


def certificate_text(found: Certificate) -> str:
    """Return the content of a certificate's file; only the last line counts."""
    keys = " and ".join(key.fingerprint for key in found.member.keys)
    return (
        f"# Certificate of {found.member.name}, serial {found.serial}, for key {keys}.\n"
        f"# Authority {found.authority}, {date(found.starts)} to {date(found.ends)}.\n"
        f'certificate = "{base64.b64encode(found.raw).decode()}"\n'
    )


def revocations_text(found: Revocations) -> str:
    """Return the content of the file with a list of revoked certificates."""
    return (
        f"# {len(found.serials)} certificates that authority {found.authority} has revoked.\n"
        f"# Number {found.number}; a list with a greater number replaces it.\n"
        f'revocations = "{base64.b64encode(found.raw).decode()}"\n'
    )


def parse_authority(raw: bytes, where: str) -> Authority:
    """Return the authority in a public file. Raises InputError, also for a secret file."""
    data = toml_file.parse(raw, where, MAX_TEXT)
    if "sign_seed" in data:
        raise InputError(f"{where}: expected an authority's public file, got its secret one")
    found = convert(data, _AuthorityFile, where)
    return Authority(found.authority, found.sign)


def parse_authority_secret(raw: bytes, where: str) -> AuthorityKeys:
    """Return the authority in a secret file. Raises InputError."""
    found = convert(toml_file.parse(raw, where, MAX_TEXT), _AuthoritySecret, where)
    if bytes(SigningKey(bytes.fromhex(found.sign_seed)).verify_key).hex() != found.sign:
        raise InputError(f"{where}: sign_seed: expected the secret half of sign")
    return AuthorityKeys(Authority(found.authority, found.sign), found.sign_seed)


def parse_signed(raw: bytes, kind: str, where: str) -> bytes:
    """Return the signed bytes in a file of `kind`: "certificate" or "revocations".

    Raises InputError.
    """
    data = toml_file.parse(raw, where, MAX_TEXT)
    text = data.get(kind)
    if set(data) != {kind} or not isinstance(text, str):
        raise InputError(f"{where}: expected {kind} and nothing else")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{where}: {kind}: expected base64, as `hostcc keys` writes it") from None


def date(seconds: float) -> str:
    """Return a time, seconds since the epoch, for people."""
    return time.strftime("%Y-%m-%d %H:%MZ", time.gmtime(min(seconds, 2**37)))


def _sign(authority: AuthorityKeys, purpose: bytes, body: bytes) -> bytes:
    signature = SigningKey(bytes.fromhex(authority.seed)).sign(purpose + body).signature
    return _encoder.encode(_Signed(body, signature))


def _open(
    raw: bytes, most: int, decoder: msgspec.msgpack.Decoder[_T], what: str
) -> tuple[_T, _Signed]:
    if len(raw) > most:
        raise CertificateError(
            Refusal.DAMAGED, f"expected {what} of at most {most} bytes, got {len(raw)}"
        )
    try:
        signed = _signed.decode(raw)
        return decoder.decode(signed.body), signed
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = f"expected {what}, got one that is truncated or damaged"
        raise CertificateError(Refusal.DAMAGED, text) from None


def _check(
    by: str, purpose: bytes, signed: _Signed, trusted: Mapping[str, Authority], what: str
) -> None:
    authority = trusted.get(by)
    if authority is None:
        known = " and ".join(f"{one.name} ({one.fingerprint})" for one in trusted.values())
        text = f"{what}: signed by authority {by}, which is not trusted here; {known or 'none'} is"
        raise CertificateError(Refusal.UNKNOWN_AUTHORITY, text)
    try:
        VerifyKey(bytes.fromhex(authority.sign)).verify(purpose + signed.body, signed.signature)
    except (BadSignatureError, ValueError, TypeError):
        text = f"{what}: its signature is not that of authority {authority.name} ({by})"
        raise CertificateError(Refusal.FORGED, text) from None


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)
