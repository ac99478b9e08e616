"""Hosts with certificates of an authority, for tests."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from hostcc.coord.keys import certificates, files, identity
from hostcc.coord.keys.certificates import AuthorityKeys, Certificate, Revocations
from hostcc.coord.keys.identity import HostKeys

DAY = 86400.0


@dataclass
class Issuer:
    """An authority that numbers what it signs."""

    keys: AuthorityKeys = field(default_factory=lambda: certificates.new_authority("main"))
    serial: int = 0
    number: int = 0

    def sign(
        self, host: HostKeys, starts: float | None = None, ends: float | None = None
    ) -> Certificate:
        self.serial += 1
        now = time.time()
        return certificates.certify(
            self.keys,
            host.member,
            self.serial,
            now - 60 if starts is None else starts,
            now + 90 * DAY if ends is None else ends,
        )

    def revoke(self, *serials: int) -> Revocations:
        self.number += 1
        return certificates.revoke(self.keys, self.number, frozenset(serials))


def new_host(name: str) -> HostKeys:
    return HostKeys(name, (identity.generate(time.time() - 1),))


def install(directory: Path, host: HostKeys, issuer: Issuer, found: Certificate | None) -> Path:
    """One host's files: its keys, its certificate, and the authority's public file."""
    files.write_host(directory, host)
    files.trust(directory, issuer.keys.public)
    if found is not None:
        files.write_certificate(directory / files.CERTIFICATE_FILE, found)
    return directory
