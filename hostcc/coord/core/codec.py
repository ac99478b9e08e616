"""Encodes and decodes messages: typed, bounded msgpack. Refusals are errors of one line."""

from __future__ import annotations

import msgspec

from hostcc.coord.core.message import (
    ENTRY_BYTES,
    HASH_BYTES,
    MAX_LEAVES,
    MAX_MESSAGE,
    PROTOCOL,
    Message,
    Record,
)
from hostcc.errors import InputError

_DOMAIN = "hostcc-record-1"
"""Domain separation: a record's signature must not be valid for other kinds of data."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


class CodecError(InputError):
    """Bytes that are not a valid message, or a message that is too long to encode."""


def encode(message: Message) -> bytes:
    """Return the encoded message. Raises CodecError above MAX_MESSAGE bytes."""
    data = _encoder.encode(message)
    if len(data) > MAX_MESSAGE:
        raise CodecError(f"message: expected at most {MAX_MESSAGE} bytes, got {len(data)}")
    return data


def decode(data: bytes) -> Message:
    """Return the message in `data`. Raises CodecError and nothing else, whatever the bytes are."""
    if len(data) > MAX_MESSAGE:
        raise CodecError(f"message: expected at most {MAX_MESSAGE} bytes, got {len(data)}")
    try:
        message = _decoder.decode(data)
    except RecursionError:
        raise CodecError("message: expected less deeply nested data") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CodecError(f"message: {str(error)[:160]}") from None
    if abs(message.protocol - PROTOCOL) > 1:
        raise CodecError(
            f"message: protocol: expected {max(PROTOCOL - 1, 0)} to {PROTOCOL + 1}, "
            f"got {message.protocol}"
        )
    _check_shapes(message)
    return message


def signed_bytes(record: Record) -> bytes:
    """Return the bytes that a record's signature covers: everything but the signature."""
    return _encoder.encode(
        (
            _DOMAIN,
            record.writer,
            record.incarnation,
            record.version,
            record.kind,
            record.key,
            record.payload,
        )
    )


def _check_shapes(message: Message) -> None:
    leaves, odd = divmod(len(message.leaves), HASH_BYTES)
    if odd or leaves & (leaves - 1):
        raise CodecError(
            f"message: leaves: expected 1, 2, 4 ... {MAX_LEAVES} hashes of {HASH_BYTES} bytes, "
            f"got {len(message.leaves)} bytes"
        )
    if len(message.entries) % ENTRY_BYTES:
        raise CodecError(
            f"message: entries: expected a multiple of {ENTRY_BYTES} bytes, "
            f"got {len(message.entries)}"
        )
    if len(message.wanted) % HASH_BYTES:
        raise CodecError(
            f"message: wanted: expected a multiple of {HASH_BYTES} bytes, got {len(message.wanted)}"
        )
