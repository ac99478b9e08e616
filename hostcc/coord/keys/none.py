"""Signer and verifier of members without keys: everybody is believed.

For one host (loopback), or a network that is trusted as a whole (`insecure = true`).
"""

from __future__ import annotations


class NoKeys:
    """Signs nothing, knows everybody, verifies anything."""

    def sign(self, _: bytes) -> bytes:
        """Nothing."""
        return b""

    def knows(self, _: str) -> bool:
        """Everybody may take part."""
        return True

    def verify(self, _writer: str, _data: bytes, _signature: bytes) -> bool:
        """Everybody may write under any name."""
        return True
