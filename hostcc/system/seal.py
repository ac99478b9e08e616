"""Seals object files: a key of their sources and a digest of all of it, at the end.

libbpf trusts its input, and a damaged file can crash it together with the daemon.  ELF readers
ignore what follows the last section, so the seal disturbs no other tool.
"""

from __future__ import annotations

import hashlib


class SealError(ValueError):
    """The bytes are not a sealed file, or are damaged; the message says which."""


MAGIC = b"hostccO1"
DIGEST_BYTES = 32
SEAL_BYTES = len(MAGIC) + 2 * DIGEST_BYTES


def seal(image: bytes, key: bytes) -> bytes:
    """Make the file for an object: its image, then the seal; `key` is 32 bytes."""
    body = image + MAGIC + key
    return body + hashlib.sha256(body).digest()


def unseal(data: bytes) -> bytes:
    """Return the image in a sealed file.  Raises SealError when anything in it was changed."""
    body, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    if not body[-DIGEST_BYTES - len(MAGIC) :].startswith(MAGIC):
        raise SealError("not an object built by hostcc.bpf.build, or cut short")
    if hashlib.sha256(body).digest() != digest:
        raise SealError("damaged: its contents do not match its digest")
    return data[:-SEAL_BYTES]


def key_of(data: bytes) -> bytes:
    """Return the key that a file was sealed with; empty when it has no valid seal."""
    try:
        image = unseal(data)
    except SealError:
        return b""
    return data[len(image) + len(MAGIC) :][:DIGEST_BYTES]
