"""A digest of many named parts that is cheap to renew when a few of them change.

Parts are spread over buckets by the hash of their name; the digest is a hash of the buckets'
hashes (a Merkle tree of one level). Equal parts give equal digests, in whatever order they came.
"""

from __future__ import annotations

from hashlib import blake2b

BUCKETS = 4096
HASH_BYTES = 16


class DigestTree:
    """Hashes by name, and one over all of them."""

    def __init__(self) -> None:
        self._buckets: dict[int, dict[bytes, bytes]] = {}
        self._hashes = bytearray(BUCKETS * HASH_BYTES)
        self._stale: set[int] = set()

    def put(self, name: bytes, content: bytes | None) -> None:
        """Set the content of a part; None removes it."""
        key = _hash(name)
        number = int.from_bytes(key[:2]) % BUCKETS
        bucket = self._buckets.setdefault(number, {})
        if content is None:
            bucket.pop(key, None)
        else:
            bucket[key] = _hash(content)
        self._stale.add(number)

    def digest(self, rules: str) -> str:
        """Return the digest of all parts and of `rules`."""
        for number in self._stale:
            bucket = self._buckets[number]
            joined = b"".join(key + bucket[key] for key in sorted(bucket))
            # An empty bucket is as one that never had a part.
            found = _hash(joined) if joined else bytes(HASH_BYTES)
            self._hashes[number * HASH_BYTES : (number + 1) * HASH_BYTES] = found
        self._stale.clear()
        return _hash(bytes(self._hashes) + rules.encode()).hex()


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=HASH_BYTES).digest()
