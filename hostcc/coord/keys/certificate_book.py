"""The certificates that this host has accepted, by member and by key, and who may sign them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostcc.coord.keys.certificates import (
    Authority,
    Certificate,
    CertificateError,
    Refusal,
    Revocations,
    check_valid,
    open_certificate,
    open_revocations,
)
from hostcc.coord.keys.identity import PublicKey, preferred

MAX_CERTIFICATES = 20_000
"""Members with a certificate; as many as an allow-list may have."""


class CertificateBook:
    """Learns certificates and lists of revoked ones; tells whose a key is. No I/O."""

    def __init__(self) -> None:
        self.authorities: Mapping[str, Authority] = {}
        """Fingerprint -> authority."""
        self.revoked: dict[str, Revocations] = {}
        """Fingerprint of the authority -> its newest list."""
        self._held: dict[str, Certificate] = {}
        self._owners: dict[str, str] = {}
        """CURVE key -> member."""

    def __len__(self) -> int:
        return len(self._held)

    def trust(self, authorities: Iterable[Authority]) -> None:
        """Accept exactly these authorities; what others have signed is forgotten."""
        self.authorities = {one.fingerprint: one for one in authorities}
        self.revoked = {by: one for by, one in self.revoked.items() if by in self.authorities}
        for held in list(self._held.values()):
            if held.authority not in self.authorities:
                self._drop(held)

    def check(self, raw: bytes, now: float) -> Certificate:
        """Return a certificate that is accepted at `now`. Raises CertificateError."""
        found = open_certificate(raw, self.authorities)
        check_valid(found, self.revoked.get(found.authority), now)
        return found

    def learn(self, raw: bytes, now: float) -> tuple[Certificate, bool]:
        """Accept a certificate; return it, and whether it was new. Raises CertificateError."""
        found = self.check(raw, now)
        name = found.member.name
        before = self._held.get(name)
        if before is not None and (before.raw == raw or found.order < before.order):
            return found, False
        for key in found.member.keys:
            if self._owners.get(key.curve, name) != name:
                text = f"{found}: expected a key that no other member has"
                raise CertificateError(Refusal.OTHER_HOST, text)
        if before is not None:
            self._drop(before)
        elif len(self._held) >= MAX_CERTIFICATES:
            self.prune(now)
            if len(self._held) >= MAX_CERTIFICATES:
                text = f"{found}: expected at most {MAX_CERTIFICATES} members"
                raise CertificateError(Refusal.DAMAGED, text)
        self._held[name] = found
        self._owners.update({key.curve: name for key in found.member.keys})
        return found, True

    def learn_revocations(self, raw: bytes) -> bool:
        """Accept a list of revoked certificates; return whether it is newer than the one held.

        Raises CertificateError.
        """
        found = open_revocations(raw, self.authorities)
        before = self.revoked.get(found.authority)
        if before is not None and found.number <= before.number:
            return False
        self.revoked[found.authority] = found
        return True

    def prune(self, now: float) -> None:
        """Forget what has ended."""
        for held in list(self._held.values()):
            if now >= held.ends:
                self._drop(held)

    def raw(self) -> list[bytes]:
        """Return all that was learned, in its signed form: lists first."""
        lists = [one.raw for one in self.revoked.values()]
        return lists + [one.raw for one in self._held.values()]

    def certificate(self, name: str) -> Certificate | None:
        """Return a member's newest certificate, whether it is accepted now or not."""
        return self._held.get(name)

    def keys_of(self, name: str, now: float) -> tuple[PublicKey, ...]:
        """Return the certified keys of a member that are valid at `now`, the one in use first."""
        held = self._held.get(name)
        return preferred(held.member, now) if held is not None and self._valid(held, now) else ()

    def member_of(self, curve: str, now: float) -> str | None:
        """Return the member with a certified CURVE key (hexadecimal) at `now`; None: nobody."""
        name = self._owners.get(curve)
        if name is None or all(key.curve != curve for key in self.keys_of(name, now)):
            return None
        return name

    def refusal(self, curve: str, now: float) -> str:
        """Return why a key that has a certificate is not accepted; empty: it has none, or is."""
        name = self._owners.get(curve)
        if name is None:
            return ""
        held = self._held[name]
        try:
            check_valid(held, self.revoked.get(held.authority), now)
        except CertificateError as error:
            return str(error)
        return ""

    def _valid(self, held: Certificate, now: float) -> bool:
        try:
            check_valid(held, self.revoked.get(held.authority), now)
        except CertificateError:
            return False
        return True

    def _drop(self, held: Certificate) -> None:
        del self._held[held.member.name]
        for key in held.member.keys:
            del self._owners[key.curve]
