"""What members say to each other: one message type whose sections are all optional.

A section that an older node does not know is ignored by it, and one that it does not send has
its default: so neighbouring protocol versions understand each other without translation.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

PROTOCOL = 1
"""Of this code.  Messages of the version before and after are understood."""

MAX_MESSAGE = 64 * 1024
"""Bytes of an encoded message; more is split."""
MAX_PAYLOAD = 16 * 1024
"""Bytes of a record's content."""
MAX_SIGNATURE = 128
MAX_RECORDS = 512
"""Records in one message."""
MAX_LEAVES = 256
"""Hashes in a digest."""
HASH_BYTES = 8
ENTRY_BYTES = 24
"""Of a summary entry: slot, stamp and fingerprint, 8 bytes each (store.py)."""
MAX_ENTRIES = 2048
"""Summary entries, or wanted slots, in one message."""
MAX_PROBES = 16
MAX_NOTES = 32
"""Notes in one message."""
MAX_NOTE = 256
"""Bytes of a note."""
COUNTER_MAX = 2**32 - 1
"""Of incarnations and versions."""
NONCE_MAX = 2**62

NAME = r"^[A-Za-z0-9._:-]{1,64}\Z"
"""Members, jobs, destinations."""

Name = Annotated[str, Meta(pattern=NAME)]
Kind = Annotated[str, Meta(pattern=r"^[a-z]{1,16}\Z")]
Key = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{0,64}\Z")]
Counter = Annotated[int, Meta(ge=0, le=COUNTER_MAX)]
Nonce = Annotated[int, Meta(ge=0, le=NONCE_MAX)]
DigestText = Annotated[str, Meta(pattern=r"^[a-z0-9]{0,64}\Z")]


class Record(Struct, frozen=True, array_like=True):
    """Something that its writer alone may say, and replace: passed on as it is, signed."""

    writer: Name
    incarnation: Counter
    """Of the writer; grows when it restarts or refutes."""
    version: Counter
    """Grows with every record of an incarnation; at least 1."""
    kind: Kind
    key: Key
    """What of that kind: a job, a destination, a member; empty where there is only one."""
    payload: Annotated[bytes, Meta(max_length=MAX_PAYLOAD)]
    """msgpack of the kind's Struct (payloads.py); empty: the record is withdrawn."""
    signature: Annotated[bytes, Meta(max_length=MAX_SIGNATURE)]
    """Of codec.signed_bytes, by the writer."""


class Probe(Struct, frozen=True, array_like=True):
    """Ask another member whether it answers, for the sender."""

    target: Name
    nonce: Nonce
    """To be acknowledged to the sender once the target has answered."""


class ViewReport(Struct, frozen=True, array_like=True):
    """Which view the sender holds, and which plan it follows."""

    held: DigestText
    active: DigestText = ""
    ask: bool = False
    """The sender wants to know the same of the receiver."""


class Note(Struct, frozen=True, array_like=True):
    """Something small from one host to another, that gossip itself has no part in.

    It may be lost, and nobody passes it on: whoever sends it repeats what has to arrive.
    """

    topic: Kind
    """Whom at the receiver it is for; unknown there: dropped."""
    data: Annotated[bytes, Meta(max_length=MAX_NOTE)]


class Message(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "protocol": "v",
        "records": "r",
        "pings": "p",
        "acks": "a",
        "probes": "i",
        "leaves": "d",
        "buckets": "b",
        "entries": "e",
        "wanted": "w",
        "holding": "h",
        "notes": "n",
    },
):
    """Everything that one member has to tell another at this moment."""

    protocol: Annotated[int, Meta(ge=0, le=255)]
    records: Annotated[tuple[Record, ...], Meta(max_length=MAX_RECORDS)] = ()
    pings: Annotated[tuple[Nonce, ...], Meta(max_length=MAX_PROBES)] = ()
    """To be acknowledged."""
    acks: Annotated[tuple[Nonce, ...], Meta(max_length=4 * MAX_PROBES)] = ()
    probes: Annotated[tuple[Probe, ...], Meta(max_length=MAX_PROBES)] = ()
    leaves: Annotated[bytes, Meta(max_length=HASH_BYTES * MAX_LEAVES)] = b""
    """Hashes of the sender's store, a power of two of them (one: the whole of it)."""
    buckets: Annotated[bytes, Meta(max_length=MAX_LEAVES)] = b""
    """Leaves, one byte each, of which `entries` is all that the sender holds."""
    entries: Annotated[bytes, Meta(max_length=ENTRY_BYTES * MAX_ENTRIES)] = b""
    """What the sender holds, in summary."""
    wanted: Annotated[bytes, Meta(max_length=HASH_BYTES * MAX_ENTRIES)] = b""
    """Slots whose records the sender asks for."""
    holding: ViewReport | None = None
    notes: Annotated[tuple[Note, ...], Meta(max_length=MAX_NOTES)] = ()


class Outgoing(Struct, frozen=True):
    """A message for a member."""

    peer: Name
    payload: Message
