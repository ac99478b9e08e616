"""An authority on disk: its secret key, what it has signed, and what it has revoked.

It is used by people on one machine that need not be a member; agents never read it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hostcc.coord.keys import certificates, files
from hostcc.coord.keys.certificates import (
    MAX_REVOKED,
    SERIAL_MAX,
    AuthorityKeys,
    Certificate,
    Fingerprint,
    Revocations,
    Serial,
    Time,
)
from hostcc.coord.keys.identity import Member, Name
from hostcc.errors import InputError

INDEX_FILE = "issued.json"
LOCK_FILE = ".lock"
MAX_INDEX_BYTES = 8 << 20
MAX_ISSUED = 50_000
CLOCK_SKEW_S = 3600.0
"""Seconds before its making from which a certificate is valid: hosts' clocks may be late."""


class Issued(Struct, frozen=True, kw_only=True):
    """One certificate that has not ended."""

    serial: Serial
    member: Name
    key: Fingerprint
    ends: Time
    revoked: bool = False


class Index(Struct, frozen=True, kw_only=True):
    """All that the authority has to remember."""

    next_serial: Annotated[int, Meta(ge=1, le=SERIAL_MAX)] = 1
    number: Annotated[int, Meta(ge=0, le=SERIAL_MAX)] = 0
    """Of the last list of revoked certificates."""
    issued: Annotated[tuple[Issued, ...], Meta(max_length=MAX_ISSUED)] = ()


def create(directory: Path, name: str) -> AuthorityKeys:
    """Make an authority. Raises InputError, also where there is one."""
    if (directory / files.AUTHORITY_FILE).exists():
        raise InputError(f"{directory / files.AUTHORITY_FILE}: expected no authority yet")
    made = certificates.new_authority(name)
    files.write_authority(directory, made)
    return made


def public_file(directory: Path, authority: AuthorityKeys) -> Path:
    """Return the file that every host of the cluster gets."""
    return directory / f"{authority.public.name}{files.SUFFIX}"


def certificate_file(directory: Path, member: str) -> Path:
    """Return where a member's newest certificate is kept."""
    return directory / "issued" / f"{member}.cert"


def revoked_file(directory: Path, authority: AuthorityKeys) -> Path:
    """Return where the newest list of revoked certificates is kept."""
    return directory / f"{authority.public.name}{files.REVOKED_SUFFIX}"


def sign(directory: Path, member: Member, now: float, valid_s: float) -> Certificate:
    """Certify a member's keys for `valid_s` seconds and keep the certificate. Raises InputError."""
    authority = files.read_authority_secret(directory)
    with _locked(directory):
        index = read_index(directory)
        made = certificates.certify(
            authority, member, index.next_serial, now - CLOCK_SKEW_S, now + valid_s
        )
        entry = Issued(
            serial=made.serial,
            member=member.name,
            key=member.keys[-1].fingerprint,
            ends=made.ends,
        )
        kept = [one for one in index.issued if one.ends > now]
        if len(kept) >= MAX_ISSUED:
            raise InputError(f"{directory}: expected at most {MAX_ISSUED} valid certificates")
        # The number is used up before anybody can see it.
        _write_index(
            directory,
            Index(next_serial=made.serial + 1, number=index.number, issued=(*kept, entry)),
        )
        path = certificate_file(directory, member.name)
        files.make_directory(path.parent)
        files.write_certificate(path, made)
    return made


def revoke(directory: Path, member: str, now: float) -> Revocations:
    """Revoke all certificates of a member; return the new list. Raises InputError."""
    authority = files.read_authority_secret(directory)
    with _locked(directory):
        index = read_index(directory)
        kept = [one for one in index.issued if one.ends > now]
        if all(one.member != member or one.revoked for one in kept):
            raise InputError(f"{directory}: expected a member with a valid certificate: {member}")
        marked = tuple(
            msgspec.structs.replace(one, revoked=True) if one.member == member else one
            for one in kept
        )
        serials = frozenset(one.serial for one in marked if one.revoked)
        if len(serials) > MAX_REVOKED:
            raise InputError(
                f"{directory}: expected at most {MAX_REVOKED} revoked certificates that have not "
                "ended; begin another authority"
            )
        made = certificates.revoke(authority, index.number + 1, serials)
        _write_index(directory, msgspec.structs.replace(index, number=made.number, issued=marked))
        files.write_revocations(revoked_file(directory, authority), made)
    return made


def read_index(directory: Path) -> Index:
    """Return what an authority has signed. Raises InputError."""
    path = directory / INDEX_FILE
    if not path.exists():
        return Index()
    try:
        return msgspec.json.decode(files.read_file(path, most=MAX_INDEX_BYTES), type=Index)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: {str(error)[:160]}") from None


def _write_index(directory: Path, index: Index) -> None:
    text = msgspec.json.format(msgspec.json.encode(index), indent=1).decode()
    files.write_text(directory / INDEX_FILE, text, 0o600)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    # Of two commands at a time one waits: no serial number is used twice.
    try:
        fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(f"{directory / LOCK_FILE}: {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
