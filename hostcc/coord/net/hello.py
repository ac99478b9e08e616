"""Datagrams by which two hosts tell each other their certificates before they connect.

CURVE needs the other end's key before the first byte. A host that knows only an address asks there,
and both then know each other's certificate. A greeting proves nothing that the connection does not
prove again; its signature shows whose certificate it is, so that a wrong one is refused with a
reason. It is as long as the longest answer: nobody gets more bytes sent than they send.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hostcc.coord.core.payloads import MAX_CERTIFICATE
from hostcc.coord.keys.certificates import Certificate, CertificateError, Refusal
from hostcc.coord.keys.keyring import Keyring

GREETING_BYTES = 1100
"""Bytes of every greeting; below the smallest MTU of IPv6 (1280)."""
MAX_REASON = 240
NONCE_BYTES = 16
_PURPOSE = b"hostcc hello 1\0"


class Greeting(Struct, frozen=True, array_like=True, tag="hostcc-hello"):
    """The question: who are you? With it, the certificate of the one who asks."""

    nonce: Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
    certificate: Annotated[bytes, Meta(max_length=MAX_CERTIFICATE)]
    """Empty: it has none."""
    signature: Annotated[bytes, Meta(max_length=64)]
    """By a key that the certificate names, of the nonce; empty without a certificate."""
    padding: bytes = b""


class Reply(Struct, frozen=True, array_like=True, tag="hostcc-reply"):
    """The answer to a greeting."""

    nonce: Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
    """That of the greeting."""
    certificate: Annotated[bytes, Meta(max_length=MAX_CERTIFICATE)]
    signature: Annotated[bytes, Meta(max_length=64)]
    refused: Annotated[str, Meta(pattern=r"^[ -~]*\Z", max_length=MAX_REASON)] = ""
    """Why the greeting's certificate is refused; empty: it is not."""


Datagram = Greeting | Reply
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Datagram] = msgspec.msgpack.Decoder(Datagram)


def greeting(keyring: Keyring, nonce: bytes) -> bytes:
    """Return the datagram that asks who somebody is."""
    own = keyring.certificate
    raw = own.raw if own is not None else b""
    signature = keyring.sign(_signed(nonce, "", raw)) if raw else b""
    bare = _encoder.encode(Greeting(nonce, raw, signature))
    padding = bytes(GREETING_BYTES - len(bare) - 1)  # whose length takes one byte more than none's
    return _encoder.encode(Greeting(nonce, raw, signature, padding))


def reply(keyring: Keyring, nonce: bytes, refused: str) -> bytes:
    """Return the answer to a greeting."""
    own = keyring.certificate
    raw = own.raw if own is not None else b""
    words = "".join(sign if " " <= sign <= "~" else "?" for sign in refused)[:MAX_REASON]
    signature = keyring.sign(_signed(nonce, words, raw)) if raw else b""
    return _encoder.encode(Reply(nonce, raw, signature, words))


def parse(data: bytes) -> Datagram | None:
    """Return a datagram's content; None: it is none of ours."""
    try:
        found = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(found, Greeting) and len(data) < GREETING_BYTES:
        return None  # the answer might be longer
    return found


def accept(keyring: Keyring, said: Datagram) -> Certificate | None:
    """Accept the certificate in a datagram; None: it has none. Raises CertificateError."""
    if not said.certificate:
        return None
    found = keyring.check(said.certificate)
    words = said.refused if isinstance(said, Reply) else ""
    data = _signed(said.nonce, words, said.certificate)
    if not any(key.verifies(data, said.signature) for key in found.member.keys):
        text = f"{found}: shown by another host, which does not have its keys"
        raise CertificateError(Refusal.OTHER_HOST, text)
    return keyring.learn(said.certificate)


def _signed(nonce: bytes, words: str, certificate: bytes) -> bytes:
    return _PURPOSE + nonce + words.encode() + b"\0" + certificate
