"""The wire format: one message type whose sections are all optional.

Older nodes ignore sections that they do not know, and a missing section has its default. So
neighbouring protocol versions understand each other without translation.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

PROTOCOL = 1
"""Version of this code; messages of the version before and after are accepted."""

MAX_MESSAGE = 64 * 1024
"""Bytes of an encoded message; more is split into several."""
MAX_PAYLOAD = 16 * 1024
"""Bytes of a record's content, as encoded."""
MAX_SIGNATURE = 128
MAX_RECORDS = 512
"""Records in one message."""
MAX_LEAVES = 256
"""Hashes in a digest of the store."""
HASH_BYTES = 8
ENTRY_BYTES = 24
"""Bytes of a summary entry: slot, stamp and fingerprint, 8 bytes each (summary.py)."""
MAX_ENTRIES = 2048
"""Summary entries, or wanted slots, in one message."""
MAX_PROBES = 16
MAX_NOTES = 32
"""Notes in one message."""
MAX_NOTE = 256
"""Bytes of a note."""
COUNTER_MAX = 2**32 - 1
"""Largest incarnation and version."""
NONCE_MAX = 2**62
MAX_JOB_DIGESTS = 64
"""Jobs of the sender whose plans one report tells."""
JOB_DIGEST_BYTES = 8
CLOCK_MAX = 2**62
"""Nanoseconds, of any host's clock."""

NAME = r"^[A-Za-z0-9._:-]{1,64}\Z"
"""Names of members, jobs and destinations."""

Name = Annotated[str, Meta(pattern=NAME)]
Kind = Annotated[str, Meta(pattern=r"^[a-z]{1,16}\Z")]
Key = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{0,64}\Z")]
Counter = Annotated[int, Meta(ge=0, le=COUNTER_MAX)]
Nonce = Annotated[int, Meta(ge=0, le=NONCE_MAX)]
DigestText = Annotated[str, Meta(pattern=r"^[a-z0-9]{0,64}\Z")]
ClockTime = Annotated[int, Meta(ge=0, le=CLOCK_MAX)]
JobDigest = Annotated[bytes, Meta(min_length=JOB_DIGEST_BYTES, max_length=JOB_DIGEST_BYTES)]


class Record(Struct, frozen=True, array_like=True, gc=False):
    """A signed statement that only its writer can make or replace; others relay it unchanged."""

    writer: Name
    incarnation: Counter
    """Of the writer; rises when it restarts or refutes an accusation."""
    version: Counter
    """Rises with every record of one incarnation, from 1."""
    kind: Kind
    key: Key
    """Subject of the record: a job, a destination, a member; empty where a kind has only one."""
    payload: Annotated[bytes, Meta(max_length=MAX_PAYLOAD)]
    """msgpack of the kind's Struct (payloads.py); empty: the record is withdrawn."""
    signature: Annotated[bytes, Meta(max_length=MAX_SIGNATURE)]
    """The writer's signature of codec.signed_bytes."""


class Probe(Struct, frozen=True, array_like=True):
    """A request to probe another member on behalf of the sender (SWIM's ping-req)."""

    target: Name
    nonce: Nonce
    """To be acknowledged to the sender once the target has answered."""


class ViewReport(Struct, frozen=True, array_like=True):
    """The digests of the view that the sender holds and of the one whose plan it follows."""

    held: DigestText
    active: DigestText = ""
    ask: bool = False
    """Whether the sender wants the receiver's report in return."""


class Note(Struct, frozen=True, array_like=True):
    """A small datagram between two hosts that bypasses gossip.

    It may be lost and is never relayed: the sender repeats what has to arrive.
    """

    topic: Kind
    """Selects the receiver's handler; unknown topics are dropped."""
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
        "clock_ns": "c",
        "probes": "i",
        "leaves": "d",
        "buckets": "b",
        "entries": "e",
        "wanted": "w",
        "holding": "h",
        "plan": "f",
        "jobs": "j",
        "notes": "n",
    },
):
    """Everything that one member sends another in one go."""

    protocol: Annotated[int, Meta(ge=0, le=255)]
    records: Annotated[tuple[Record, ...], Meta(max_length=MAX_RECORDS)] = ()
    pings: Annotated[tuple[Nonce, ...], Meta(max_length=MAX_PROBES)] = ()
    """Nonces to be acknowledged."""
    acks: Annotated[tuple[Nonce, ...], Meta(max_length=4 * MAX_PROBES)] = ()
    clock_ns: ClockTime = 0
    """With `acks`: the sender's clock (CLOCK_MONOTONIC) when it had the pings; 0: its version is
    older, or the pings were another member's."""
    probes: Annotated[tuple[Probe, ...], Meta(max_length=MAX_PROBES)] = ()
    leaves: Annotated[bytes, Meta(max_length=HASH_BYTES * MAX_LEAVES)] = b""
    """Hashes of the sender's store: one of the whole, or one for each of MAX_LEAVES leaves."""
    buckets: Annotated[bytes, Meta(max_length=MAX_LEAVES)] = b""
    """Indices of the leaves, one byte each, for which `entries` is complete."""
    entries: Annotated[bytes, Meta(max_length=ENTRY_BYTES * MAX_ENTRIES)] = b""
    """Summary of records that the sender holds."""
    wanted: Annotated[bytes, Meta(max_length=HASH_BYTES * MAX_ENTRIES)] = b""
    """Slots whose records the sender asks for."""
    holding: ViewReport | None = None
    plan: DigestText = ""
    """With `holding`: digest of the plan that the sender is to follow (coord/plan_difference);
    empty: none, or its version is older."""
    jobs: Annotated[dict[Name, JobDigest], Meta(max_length=MAX_JOB_DIGESTS)] = {}
    """With `plan`: digest of what the plan says of each of the sender's own jobs."""
    notes: Annotated[tuple[Note, ...], Meta(max_length=MAX_NOTES)] = ()


class Outgoing(Struct, frozen=True):
    """A message with the member that it is for."""

    peer: Name
    payload: Message
