"""What the first host of a job tells the hosts that wait for it.  Pure.

A note may come late, twice or never: it only moves a deadline.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hostcc.config.sections.words import JobName
from hostcc.errors import InputError

TOPIC = "gate"
MAX_MS = 60_000
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=MAX_MS)]


class Sending(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """Says that a job has begun to send, and for how long it would alone."""

    job: JobName
    expected_ms: Milliseconds
    late_ms: Milliseconds
    """Since it has begun."""


class Waiting(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """Says that a job would send, and for how long it has waited."""

    job: JobName
    expected_ms: Milliseconds
    waited_ms: Milliseconds


class Over(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """Says that a job has sent the bytes of its iteration."""

    job: JobName
    late_ms: Milliseconds
    """Since that was so."""


GateNote = Sending | Waiting | Over
_DECODER: msgspec.msgpack.Decoder[GateNote] = msgspec.msgpack.Decoder(GateNote)


def encode(note: GateNote) -> bytes:
    """Return a note as it is sent."""
    return msgspec.msgpack.encode(note)


def decode(data: bytes) -> GateNote:
    """Return a note that came.  Raises InputError."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"gate: expected a note of a job's turn: {error}") from None


def milliseconds(seconds: float) -> int:
    """Return a time as a note has it."""
    return round(1e3 * min(MAX_MS / 1e3, max(0.0, seconds)))
