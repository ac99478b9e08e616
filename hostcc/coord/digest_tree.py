"""A digest of many named parts that is cheap to renew when a few of them change.

Parts are spread over buckets by the hash of their name; the digest is a hash of the buckets'
hashes (a Merkle tree of one level). Equal parts give equal digests, in whatever order they came.
"""

from __future__ import annotations

from bisect import bisect_left
from hashlib import blake2b

BUCKETS = 4096
HASH_BYTES = 16


class DigestTree:
    """Hashes by name, and one over all of them."""

    def __init__(self) -> None:
        self._buckets: dict[int, bytearray] = {}
        """Hash of the name and hash of the content of each part, sorted."""
        self._hashes = bytearray(BUCKETS * HASH_BYTES)
        self._stale: set[int] = set()

    def put(self, name: bytes, content: bytes | None) -> None:
        """Set the content of a part; None removes it."""
        key = _hash(name)
        number = int.from_bytes(key[:2]) % BUCKETS
        bucket = self._buckets.setdefault(number, bytearray())
        cells = range(0, len(bucket), 2 * HASH_BYTES)
        place = bisect_left(cells, key, key=lambda at: bytes(bucket[at : at + HASH_BYTES]))
        at = place * 2 * HASH_BYTES
        known = bucket[at : at + HASH_BYTES] == key
        cell = b"" if content is None else key + _hash(content)
        bucket[at : at + 2 * HASH_BYTES * known] = cell
        self._stale.add(number)

    def digest(self, rules: str) -> str:
        """Return the digest of all parts and of `rules`."""
        for number in self._stale:
            bucket = self._buckets[number]
            # An empty bucket is as one that never had a part.
            found = _hash(bucket) if bucket else bytes(HASH_BYTES)
            self._hashes[number * HASH_BYTES : (number + 1) * HASH_BYTES] = found
        self._stale.clear()
        return _hash(bytes(self._hashes) + rules.encode()).hex()


def _hash(data: bytes | bytearray) -> bytes:
    return blake2b(data, digest_size=HASH_BYTES).digest()
