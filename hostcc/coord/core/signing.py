"""The two interfaces that the core needs from keys: signing and verifying."""

from __future__ import annotations

import hashlib
from typing import Protocol


class Signer(Protocol):
    """Signs this member's records."""

    def sign(self, data: bytes) -> bytes:
        """Return the signature of `data`, at most message.MAX_SIGNATURE bytes."""


class Verifier(Protocol):
    """Knows the allowed members and their keys."""

    def knows(self, writer: str) -> bool:
        """Return whether a member of this name is allowed; records of others are ignored."""

    def verify(self, writer: str, data: bytes, signature: bytes) -> bool:
        """Return whether the writer made the signature; False for unknown writers. Never raises."""

    def learn_record(self, writer: str, kind: str, raw: bytes) -> str:
        """Consider a certificate or a list of revoked ones that a record carries.

        Return why it is refused; empty: it is accepted. Never raises. Called before the writer is
        known, so that `raw` must prove itself.
        """


class SimulatedSigner:
    """A keyed hash in place of a signature, for simulations only: whoever can check can forge."""

    def __init__(self, name: str) -> None:
        self._key = name.encode()

    def sign(self, data: bytes) -> bytes:
        """Return the hash of `data`, 16 bytes."""
        return hashlib.blake2b(data, key=self._key, digest_size=16).digest()


class SimulatedVerifier:
    """Checks what SimulatedSigner makes; `allowed` None: all names are allowed."""

    def __init__(self, allowed: frozenset[str] | None = None) -> None:
        self._allowed = allowed

    def knows(self, writer: str) -> bool:
        """Return whether the name is on the list."""
        return self._allowed is None or writer in self._allowed

    def verify(self, writer: str, data: bytes, signature: bytes) -> bool:
        """Return whether the hash is the one that the writer would make."""
        made = hashlib.blake2b(data, key=writer.encode(), digest_size=16).digest()
        return self.knows(writer) and made == signature

    def learn_record(self, _writer: str, _kind: str, _raw: bytes) -> str:
        """Accept and forget it: simulated members need no certificates."""
        return ""
