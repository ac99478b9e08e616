"""Contents of records by kind, and the bounds within which a measurement is accepted.

A record out of bounds is rejected as a whole. Records of unknown kinds are stored and relayed, but
not interpreted.
"""

from __future__ import annotations

import math
import zlib
from sys import intern
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hostcc.coord.core.message import MAX_PAYLOAD, Counter, Name, Record
from hostcc.errors import InputError
from hostcc.limits import BYTES_PER_ITERATION_MAX, WEIGHT_MAX, WEIGHT_MIN

MAX_SECONDS = 86_400.0
"""Longest iteration accepted: a day."""
MAX_GPUS = 64.0
"""GPUs of one host."""
MAX_FLOP_PER_S = 4e16
"""FLOP/s of one GPU: above the peak of any product, at any precision."""
MAX_CAPACITY = 1e12
"""Capacity of a link in bytes/s: 8 Tbit/s."""
MAX_SLOWDOWN = 10.0
MAX_DESTINATIONS = 192
MAX_FLOWS = 64
MAX_PATHS = 64
MAX_HOPS = 12
MAX_PORTS = 16
MAX_LINKS = 144
MAX_ADDRESSES = 32
MAX_OPTIONS = 32
MAX_CERTIFICATE = 640
"""Bytes of a signed certificate (keys/certificates.py)."""
MAX_REVOCATIONS = 12 * 1024
"""Bytes of a signed list of revoked certificates."""
MAX_PLAIN = 128 * 1024
"""Bytes of a content once decompressed; the largest path table takes 80 kB."""

LinkName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:>/@-]{1,96}\Z")]
Address = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:%\[\]-]{0,128}\Z")]
Seconds = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
Volume = Annotated[float, Meta(ge=0, le=BYTES_PER_ITERATION_MAX)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Option = tuple[
    Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_.]{0,47}\Z")],
    Annotated[str, Meta(pattern=r"^[ -~]{1,64}\Z")],
]

MEMBER, ACCUSE = "member", "accuse"
PROFILE, FLOWS, PATHS, LINKS = "profile", "flows", "paths", "links"
ADDRESSES, WAITING, RULES = "addresses", "waiting", "rules"
CERTIFICATE, REVOKED = "certificate", "revoked"


class Member(Struct, frozen=True, array_like=True):
    """A host's membership and address."""

    address: Address
    """host:port to connect to; empty: it accepts no connections and makes its own."""
    birth: Counter
    """Incarnation in which this life of the host began; records of earlier ones are void."""
    software: Annotated[str, Meta(pattern=r"^[ -~]{0,32}\Z")] = ""
    life: Counter = 0
    """Random number drawn at every start, so that two lives never publish equal records."""


class Accusation(Struct, frozen=True, array_like=True):
    """The statement that a member, named by the key, does not answer probes."""

    incarnation: Counter
    """Of the accused; a higher one refutes the accusation."""


class Profile(Struct, frozen=True, array_like=True):
    """A job's model.JobProfile as one host measured it, in steps (quantise.py); key: the job."""

    compute_s: Seconds
    comm_start_s: Seconds
    work: Annotated[float, Meta(ge=0)]
    """FLOP per iteration, on this host."""
    gpus: Annotated[float, Meta(ge=0, le=MAX_GPUS)]
    period_s: Seconds = 0.0
    comm_s: Seconds = 0.0
    weight: Annotated[float, Meta(ge=WEIGHT_MIN, le=WEIGHT_MAX)] = 1.0
    slowdown: Annotated[float, Meta(ge=1, le=MAX_SLOWDOWN)] = 1.0
    to: Annotated[tuple[tuple[Name, Volume], ...], Meta(max_length=MAX_DESTINATIONS)] = ()
    """(Member, bytes per iteration) for each destination of the job's traffic."""
    provisional: bool = False
    """Guessed from the job's traffic, because its iterations are not known yet."""
    assumed_flop_per_s: Annotated[float, Meta(ge=0, le=MAX_GPUS * MAX_FLOP_PER_S)] = 0.0
    """What the job's GPUs on this host are assumed to reach while they compute, as `work` is
    unknown; 0: `work` is known, or they are not.  Members of earlier versions do not read it."""


class FlowEntry(Struct, frozen=True, array_like=True):
    """One flow that starts at the writer."""

    id: Name
    """Unique at the writer."""
    dst: Name
    bytes: Volume
    elephant: bool = True
    protocol: Annotated[str, Meta(pattern=r"^[a-z0-9]{0,8}\Z")] = "tcp"
    src_port: Port = 0
    dst_port: Port = 0
    path: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{0,64}\Z")] = ""


class Flows(Struct, frozen=True, array_like=True):
    """Flows of one job that start at the writer; the key is the job."""

    flows: Annotated[tuple[FlowEntry, ...], Meta(max_length=MAX_FLOWS)]


class PathEntry(Struct, frozen=True, array_like=True):
    """One path from the writer to the destination in the key."""

    id: Name
    links: Annotated[tuple[LinkName, ...], Meta(max_length=MAX_HOPS)]
    ports: Annotated[tuple[Port, ...], Meta(max_length=MAX_PORTS)] = ()


class Paths(Struct, frozen=True, array_like=True):
    """All paths from the writer to the destination in the key."""

    paths: Annotated[tuple[PathEntry, ...], Meta(max_length=MAX_PATHS)]


class Links(Struct, frozen=True, array_like=True):
    """Link capacities that the writer knows."""

    links: Annotated[
        tuple[tuple[LinkName, Annotated[float, Meta(ge=0, le=MAX_CAPACITY)]], ...],
        Meta(max_length=MAX_LINKS),
    ]
    """(Directed link, bytes/s); 0: the link has failed."""


class Addresses(Struct, frozen=True, array_like=True):
    """Addresses at which the writer receives jobs' traffic, beside its gossip address."""

    addresses: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[0-9a-f:.]{2,45}\Z")], ...],
        Meta(max_length=MAX_ADDRESSES),
    ]


class ProfilingClaim(Struct, frozen=True, array_like=True):
    """A job that waits to be profiled on the writer, or is being profiled; the key is the job."""

    turn: bool
    """Whether it is being profiled."""
    again: bool = False
    """Whether it was profiled before; others then go first."""


class Rules(Struct, frozen=True, array_like=True):
    """What the writer's plans depend on beside the view (daemon/planning/rules.py)."""

    scheduler: Counter
    """schedule.revision.REVISION."""
    options: Annotated[tuple[Option, ...], Meta(max_length=MAX_OPTIONS)] = ()
    """(Name, value) of options that differ from their defaults."""


class HostCertificate(Struct, frozen=True, array_like=True):
    """The writer's certificate; read before the writer is known, because it makes it known."""

    raw: Annotated[bytes, Meta(max_length=MAX_CERTIFICATE)]


class RevokedCertificates(Struct, frozen=True, array_like=True):
    """An authority's list of revoked certificates; the key is the authority's fingerprint."""

    raw: Annotated[bytes, Meta(max_length=MAX_REVOCATIONS)]
    number: Counter
    """Of the list, for those who only want to know whether theirs is newer."""


Content = (
    Member
    | Accusation
    | Profile
    | Flows
    | Paths
    | Links
    | Addresses
    | ProfilingClaim
    | Rules
    | HostCertificate
    | RevokedCertificates
)

KINDS: dict[str, type[Content]] = {
    MEMBER: Member,
    ACCUSE: Accusation,
    PROFILE: Profile,
    FLOWS: Flows,
    PATHS: Paths,
    LINKS: Links,
    ADDRESSES: Addresses,
    WAITING: ProfilingClaim,
    RULES: Rules,
    CERTIFICATE: HostCertificate,
    REVOKED: RevokedCertificates,
}
_KEYLESS = frozenset({MEMBER, LINKS, ADDRESSES, RULES, CERTIFICATE})
_decoders = {kind: msgspec.msgpack.Decoder(type_) for kind, type_ in KINDS.items()}
_encoder = msgspec.msgpack.Encoder()


class PayloadError(InputError):
    """A record whose content its kind does not allow: `KIND KEY: field: expected X`."""


def encode(content: Content) -> bytes:
    """Return a record's payload. Path tables are compressed, because link names repeat in them.

    A profile without assumed work is encoded without that field, as 0.1.0 wrote it.
    """
    if isinstance(content, Profile) and not content.assumed_flop_per_s:
        return _encoder.encode(msgspec.structs.astuple(content)[:-1])
    plain = _encoder.encode(content)
    return zlib.compress(plain) if isinstance(content, Paths) else plain


def decode(record: Record) -> Content | None:
    """Return the content of a record; None: withdrawn, or of a kind unknown here.

    Raises PayloadError.
    """
    decoder = _decoders.get(record.kind)
    if decoder is None:
        return None
    where = f"{record.kind} {record.key}".rstrip()
    if len(record.payload) > MAX_PAYLOAD:
        size = len(record.payload)
        raise PayloadError(f"{where}: expected at most {MAX_PAYLOAD} bytes, got {size}")
    if bool(record.key) == (record.kind in _KEYLESS):
        raise PayloadError(f"{where}: key: expected {'none' if record.key else 'one'}")
    if not record.payload:
        if record.kind == MEMBER:
            raise PayloadError(f"{where}: expected a member, got a withdrawn one")
        return None
    plain = _unpacked(record.payload, where) if record.kind == PATHS else record.payload
    try:
        content = decoder.decode(plain)
    except RecursionError:
        raise PayloadError(f"{where}: expected less deeply nested data") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PayloadError(f"{where}: {str(error)[:160]}") from None
    _check(content, where)
    return _shared(content)


def _shared(content: Content) -> Content:
    """Return the content with names of which there is one object each.

    The names of links and paths repeat in thousands of records.
    """
    if isinstance(content, Paths):
        return Paths(
            tuple(
                PathEntry(intern(one.id), tuple(map(intern, one.links)), one.ports)
                for one in content.paths
            )
        )
    if isinstance(content, Links):
        return Links(tuple((intern(link), value) for link, value in content.links))
    return content


def _unpacked(payload: bytes, where: str) -> bytes:
    # Bounded: a small payload may expand to gigabytes.
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(payload, MAX_PLAIN)
    except zlib.error as error:
        raise PayloadError(f"{where}: expected compressed data, got {str(error)[:80]}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise PayloadError(
            f"{where}: expected compressed data of at most {MAX_PLAIN} bytes, and nothing after it"
        )
    return plain


def _check(content: Content, where: str) -> None:
    for name, value in _numbers(content):
        if not math.isfinite(value):
            raise PayloadError(f"{where}: {name}: expected a finite number, got {value}")
    if isinstance(content, Profile):
        busy = max(content.period_s, content.compute_s)
        most = max(content.gpus, 1.0) * MAX_FLOP_PER_S * busy
        if content.work > most:
            raise PayloadError(
                f"{where}: work: expected at most {most:.3g} FLOP of {content.gpus:g} GPUs in "
                f"{busy:g} s, got {content.work:.3g}"
            )
    for what, names in _names(content):
        if len(set(names)) != len(names):
            raise PayloadError(f"{where}: {what}: expected each once")


def _numbers(content: Content) -> list[tuple[str, float]]:
    # Numbers with a range: msgspec's comparisons let NaN through.
    if isinstance(content, Profile):
        fields = ("compute_s", "comm_start_s", "work", "gpus", "period_s", "comm_s", "weight")
        more = ("slowdown", "assumed_flop_per_s")
        found = [(name, getattr(content, name)) for name in (*fields, *more)]
        return found + [("to", value) for _, value in content.to]
    if isinstance(content, Flows):
        return [("bytes", flow.bytes) for flow in content.flows]
    if isinstance(content, Links):
        return [("capacity", value) for _, value in content.links]
    return []


def _names(content: Content) -> list[tuple[str, list[str]]]:
    if isinstance(content, Profile):
        return [("to", [name for name, _ in content.to])]
    if isinstance(content, Flows):
        return [("flows", [flow.id for flow in content.flows])]
    if isinstance(content, Paths):
        return [("paths", [path.id for path in content.paths])]
    if isinstance(content, Links):
        return [("links", [name for name, _ in content.links])]
    if isinstance(content, Addresses):
        return [("addresses", list(content.addresses))]
    if isinstance(content, Rules):
        return [("options", [name for name, _ in content.options])]
    return []
