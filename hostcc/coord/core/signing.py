"""Who may speak for whom: the two interfaces that the core needs from keys."""

from __future__ import annotations

import hashlib
from typing import Protocol


class Signer(Protocol):
    """Signs this member's records."""

    def sign(self, data: bytes) -> bytes:
        """At most message.MAX_SIGNATURE bytes."""


class Verifier(Protocol):
    """Knows the members that are allowed, and their keys."""

    def knows(self, writer: str) -> bool:
        """Whether a member of this name is allowed; a stranger's records are passed over."""

    def verify(self, writer: str, data: bytes, signature: bytes) -> bool:
        """Whether the signature is the writer's; False for strangers.  Never raises."""


class SimulatedSigner:
    """A keyed hash in place of a signature, for simulations only: whoever can check can forge."""

    def __init__(self, name: str) -> None:
        self._key = name.encode()

    def sign(self, data: bytes) -> bytes:
        """16 bytes."""
        return hashlib.blake2b(data, key=self._key, digest_size=16).digest()


class SimulatedVerifier:
    """Checks what SimulatedSigner makes; `allowed` None: everybody."""

    def __init__(self, allowed: frozenset[str] | None = None) -> None:
        self._allowed = allowed

    def knows(self, writer: str) -> bool:
        """Whether the name is on the list."""
        return self._allowed is None or writer in self._allowed

    def verify(self, writer: str, data: bytes, signature: bytes) -> bool:
        """Whether the hash is the one that the writer would make."""
        made = hashlib.blake2b(data, key=writer.encode(), digest_size=16).digest()
        return self.knows(writer) and made == signature
