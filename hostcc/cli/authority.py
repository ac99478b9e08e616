"""`hostcc keys authority|sign|add`: an authority that certifies hosts, and hosts that trust it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostcc.cli.common import print_json
from hostcc.errors import Exit, InputError
from hostcc.foreign import say

if TYPE_CHECKING:
    from hostcc.coord.keys.certificate_book import CertificateBook
    from hostcc.coord.keys.certificates import Authority, Certificate, Revocations

AUTHORITY_DIRECTORY = "/etc/hostcc/authority"
SCHEMA = "hostcc.authority/1"
DAY_S = 86400.0
MAX_DAYS = 3650.0


def add_authority(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Add the option that names an authority's directory."""
    parser.add_argument(
        "--authority",
        type=Path,
        default=Path(AUTHORITY_DIRECTORY) if required else None,
        metavar="DIR",
        help="where the authority's secret key is"
        + (" (default: %(default)s)" if required else ": revoke NAME's certificates"),
    )


def add_days(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how long certificates are valid."""
    parser.add_argument(
        "--days",
        type=float,
        default=365.0,
        metavar="N",
        help="for which certificates are valid (default: %(default)g)",
    )


def check_days(days: float) -> None:
    """Raise InputError for a time that no certificate should be valid."""
    if not 0.01 <= days <= MAX_DAYS:
        raise InputError(f"--days: expected 0.01 to {MAX_DAYS:g}, got {days:g}")


def run_authority(args: argparse.Namespace) -> int:
    """Make an authority, or show what it has signed."""
    from hostcc.coord import member_name
    from hostcc.coord.keys import authority_store, files

    if args.name is not None:
        if not member_name.is_member_name(args.name):
            words = member_name.MEMBER_NAME_WORDS
            raise InputError(f"--name: expected {words}, got {args.name!r:.80}")
        made = authority_store.create(args.authority, args.name)
        tell(
            f"made authority {args.name}, {made.public.fingerprint}; every host gets the file below"
        )
    keys = files.read_authority_secret(args.authority)
    public = authority_store.public_file(args.authority, keys)
    if args.json:
        print_json(_as_json(args.authority))
    else:
        say(public)
    return Exit.OK


def run_sign(args: argparse.Namespace) -> int:
    """Certify a host's public keys."""
    from hostcc.coord.keys import authority_store, files

    check_days(args.days)
    members = [files.read_public(Path(file)) for file in args.file]
    for member in members:
        now = time.time()
        made = authority_store.sign(args.authority, member, now, args.days * DAY_S)
        tell(f"signed the {made}, valid for {args.days:g} days; on {member.name}: hostcc keys add")
        if not args.json:
            say(authority_store.certificate_file(args.authority, member.name))
    if args.json:
        print_json(_as_json(args.authority))
    return Exit.OK


def run_add(args: argparse.Namespace) -> int:
    """Take an authority's public file, this host's certificate, or a list of revoked ones."""
    for file in args.file:
        say(_add(args.dir, Path(file)))
    return Exit.OK


def revoke_certificates(directory: Path, name: str) -> int:
    """Revoke a member's certificates."""
    from hostcc.coord.keys import authority_store, files

    made = authority_store.revoke(directory, name, time.time())
    say(authority_store.revoked_file(directory, files.read_authority_secret(directory)))
    tell(
        f"{name} is revoked by list number {made.number}; it is enough to add it on one host: "
        "hostcc keys add"
    )
    return Exit.OK


def certificate_json(found: Certificate | None) -> dict[str, Any] | None:
    """Return a certificate for JSON."""
    if found is None:
        return None
    return {
        "member": found.member.name,
        "serial": found.serial,
        "authority": found.authority,
        "starts": found.starts,
        "ends": found.ends,
        "keys": [key.fingerprint for key in found.member.keys],
    }


@dataclass(frozen=True)
class HostTrust:
    """Whom a host trusts, and what it can show."""

    authorities: Mapping[str, Authority]
    revoked: Mapping[str, Revocations]
    certificate: Certificate | None
    skipped: Mapping[str, str]


def read_trust(directory: Path) -> HostTrust:
    """Read a host's authorities and its certificate; what is not taken is in `skipped`."""
    from hostcc.coord.keys import files
    from hostcc.coord.keys.keyring import own_certificate

    book, skipped = _book(directory)
    certificate, path = None, directory / files.CERTIFICATE_FILE
    if path.exists():
        try:
            raw = files.read_signed(path, "certificate")
            certificate = own_certificate(raw, files.read_secret(directory), book)
            book.check(raw, time.time())
        except InputError as error:
            skipped[path.name] = f"{path}: {error}"
    return HostTrust(book.authorities, book.revoked, certificate, skipped)


def trust_json(found: HostTrust) -> dict[str, Any]:
    """Return the part of `hostcc keys list` about authorities, for JSON."""
    return {
        "authorities": [
            {"name": one.name, "fingerprint": one.fingerprint} for one in found.authorities.values()
        ],
        "certificate": certificate_json(found.certificate),
        "revoked": [
            {"authority": by, "number": one.number, "serials": sorted(one.serials)}
            for by, one in found.revoked.items()
        ],
        "skipped_authorities": dict(found.skipped),
    }


def trust_lines(found: HostTrust, now: float) -> list[str]:
    """Return the part of `hostcc keys list` about authorities, for people."""
    lines = [
        f"every host that authority {one.name} ({one.fingerprint}) has certified may take part"
        for one in found.authorities.values()
    ]
    for by, revoked in found.revoked.items():
        name = found.authorities[by].name
        lines.append(f"of {name}: {len(revoked.serials)} revoked, list number {revoked.number}")
    own = found.certificate
    if own is not None:
        left = (own.ends - now) / DAY_S
        lines.append(f"this host's certificate: serial {own.serial}, {left:.0f} days left")
    return lines


def tell(text: str) -> None:
    """Print what was done, beside the result."""
    say(f"hostcc keys: {text}", file=sys.stderr)


def _add(directory: Path, file: Path) -> Path:
    from hostcc.coord.keys import certificates, files
    from hostcc.coord.keys.keyring import own_certificate
    from hostcc.system import toml_file

    text = files.read_file(file, most=certificates.MAX_TEXT)
    kinds = toml_file.parse(text, str(file), certificates.MAX_TEXT).keys()
    if "authority" in kinds:
        return files.trust(directory, certificates.parse_authority(text, str(file)))
    book, _ = _book(directory)
    try:
        if "revocations" in kinds:
            raw = certificates.parse_signed(text, "revocations", str(file))
            found = certificates.open_revocations(raw, book.authorities)
            held = book.revoked.get(found.authority)
            if held is not None and held.number > found.number:
                raise InputError(
                    f"expected a list from number {held.number} on, got {found.number}"
                )
            name = f"{book.authorities[found.authority].name}{files.REVOKED_SUFFIX}"
            return files.write_revocations(files.authority_directory(directory) / name, found)
        raw = certificates.parse_signed(text, "certificate", str(file))
        own = own_certificate(raw, files.read_secret(directory), book)
        book.check(raw, time.time())
        return files.write_certificate(directory / files.CERTIFICATE_FILE, own)
    except InputError as error:
        at = "" if str(error).startswith(str(file)) else f"{file}: "
        raise InputError(f"{at}{error}") from None


def _book(directory: Path) -> tuple[CertificateBook, dict[str, str]]:
    # Whom a host trusts, by its files, and which of these are not taken for what reason.
    from hostcc.coord.keys import files
    from hostcc.coord.keys.certificate_book import CertificateBook
    from hostcc.coord.keys.trust_directory import TrustDirectory

    trusted = TrustDirectory(files.authority_directory(directory), quiet=True)
    trusted.read()
    book = CertificateBook()
    book.trust(trusted.trust.authorities)
    for raw in trusted.trust.revocations:
        book.learn_revocations(raw)
    return book, dict(trusted.trust.skipped)


def _as_json(directory: Path) -> dict[str, Any]:
    from hostcc.coord.keys import authority_store, files

    keys = files.read_authority_secret(directory)
    index = authority_store.read_index(directory)
    return {
        "schema": SCHEMA,
        "authority": keys.public.name,
        "fingerprint": keys.public.fingerprint,
        "file": str(authority_store.public_file(directory, keys)),
        "number": index.number,
        "issued": [
            {
                "member": one.member,
                "serial": one.serial,
                "key": one.key,
                "ends": one.ends,
                "revoked": one.revoked,
                "file": str(authority_store.certificate_file(directory, one.member)),
            }
            for one in index.issued
        ],
    }
