"""Signer and verifier for members without keys: every name is believed.

For one host (loopback), or a network that is trusted as a whole (`insecure = true`).
"""

from __future__ import annotations


class NoKeys:
    """Signs nothing, knows every name, accepts any signature."""

    def sign(self, _: bytes) -> bytes:
        """Return an empty signature."""
        return b""

    def knows(self, _: str) -> bool:
        """Return True: everybody may take part."""
        return True

    def verify(self, _writer: str, _data: bytes, _signature: bytes) -> bool:
        """Return True: everybody may write under any name."""
        return True

    def learn_record(self, _writer: str, _kind: str, _raw: bytes) -> str:
        """Accept and forget it: nobody needs a certificate."""
        return ""
