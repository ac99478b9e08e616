"""Probe packets and what comes back, as bytes.  Pure.

A probe has the flow's addresses, protocol and ports, and a small TTL.  Should it arrive in
spite of that it does nothing: a TCP probe has no flag set and a wrong checksum, so it is
dropped before any connection is looked up; a UDP probe is too short to be RoCE.

Each carries a token of 32 bits that nobody else can know, in what even the oldest routers quote:
the IP header and eight bytes behind it.  TCP has it as sequence number, an echo request as
identifier and sequence number, UDP over IPv4 as IP identification and (right) checksum; over IPv6
all of a UDP probe is quoted, and its payload has it.  Layouts: RFC 791, 792, 4443, 8200, 9293, 768.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass
from enum import Enum

TCP, UDP, ICMP, ICMP6 = 6, 17, 1, 58
ROCE_PORT = 4791
MAX_QUOTED_TTL = 1
"""Quoted TTL of an answer that says that it ended: 1 as it came, or 0 after the decrement."""
_V4 = struct.Struct("!BBHHHBBH4s4s")
_V6 = struct.Struct("!IHBB16s16s")
_TCP = struct.Struct("!HHIIBBHHH")
_UDP = struct.Struct("!HHHH")
_ECHO = struct.Struct("!BBHHH")
_DONT_FRAGMENT = 0x4000
_ECHO_REQUEST, _ECHO_REQUEST6, _ECHO_REPLY, _ECHO_REPLY6 = 8, 128, 0, 129
_EXCEEDED, _EXCEEDED6, _UNREACHABLE, _UNREACHABLE6 = 11, 3, 3, 1
_PORT_UNREACHABLE, _PORT_UNREACHABLE6 = 3, 4


@dataclass(frozen=True)
class Target:
    """What is probed: one direction between two addresses of one family."""

    src: str
    dst: str
    protocol: int = TCP
    dst_port: int = ROCE_PORT
    tos: int = 0
    """DSCP and ECN, as of the flow."""
    flow_label: int = 0
    """IPv6 only."""
    by_label: bool = False
    """IPv6 only: a probe's source port is also its flow label, for switches that hash that."""

    @property
    def ipv6(self) -> bool:
        """Whether the addresses are IPv6."""
        return ":" in self.dst


class Kind(Enum):
    """Kinds of answers."""

    HOP = "hop"
    """The probe's TTL ended at the answering router."""
    REACHED = "reached"
    """The probe reached the destination."""
    REFUSED = "refused"
    """A router refused to forward the probe."""


@dataclass(frozen=True)
class Reply:
    """An answer to a probe."""

    kind: Kind
    responder: str
    token: int
    port: int
    """Source port of the probe; 0: it was an echo request."""
    ttl: int = 0
    """TTL of the probe as quoted; 0 where nothing is quoted."""


def probe(target: Target, port: int, ttl: int, token: int) -> bytes:
    """Make a whole packet; `token` (32 bits, neither half 0) comes back in the answer."""
    src, dst = _packed(target.src), _packed(target.dst)
    if target.protocol == TCP:
        head = (port, target.dst_port, token, 0, 5 << 4, 0, 0)
        right = checksum(_pseudo(src, dst, TCP, _TCP.size) + _TCP.pack(*head, 0, 0))
        body = _TCP.pack(*head, right ^ 0x0101, 0)
    else:
        body = _udp(target, src + dst, port, token)
    label = port if target.by_label else target.flow_label
    return _ip(target, src, dst, target.protocol, ttl, token >> 16, label) + body


def echo(target: Target, ttl: int, token: int) -> bytes:
    """Make an echo request to the target: its answer tells how far away the host is."""
    src, dst = _packed(target.src), _packed(target.dst)
    kind, protocol = (_ECHO_REQUEST6, ICMP6) if target.ipv6 else (_ECHO_REQUEST, ICMP)
    own = token >> 16, token & 0xFFFF
    blank = _ECHO.pack(kind, 0, 0, *own)
    over = _pseudo(src, dst, ICMP6, len(blank)) + blank if target.ipv6 else blank
    body = _ECHO.pack(kind, 0, checksum(over), *own)
    return _ip(target, src, dst, protocol, ttl, token >> 16, target.flow_label) + body


def parse_reply(target: Target, responder: str, message: bytes) -> Reply | None:
    """Parse an ICMP message (without IP header); None: it does not answer our probes."""
    if len(message) < 8:
        return None
    kind, code, _, ident, sequence = _ECHO.unpack_from(message)
    v6 = target.ipv6
    if kind == (_ECHO_REPLY6 if v6 else _ECHO_REPLY):
        same = _packed(responder) == _packed(target.dst)
        return Reply(Kind.REACHED, responder, ident << 16 | sequence, 0) if same else None
    if kind == (_EXCEEDED6 if v6 else _EXCEEDED) and code == 0:
        means = Kind.HOP
    elif kind == (_UNREACHABLE6 if v6 else _UNREACHABLE):
        arrived = code == (_PORT_UNREACHABLE6 if v6 else _PORT_UNREACHABLE)
        arrived &= _packed(responder) == _packed(target.dst)
        means = Kind.REACHED if arrived else Kind.REFUSED
    else:
        return None
    quoted = _quoted6(target, message[8:]) if v6 else _quoted4(target, message[8:])
    if quoted is None or (means is Kind.HOP and quoted[2] > MAX_QUOTED_TTL):
        return None
    return Reply(means, responder, *quoted)


def checksum(data: bytes) -> int:
    """Compute the Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _udp(target: Target, addresses: bytes, port: int, token: int) -> bytes:
    # A datagram; over IPv4 its checksum is the lower half of the token, and right.
    wanted = 0 if target.ipv6 else token & 0xFFFF
    length = _UDP.size + 8
    blank = _UDP.pack(port, target.dst_port, length, 0) + struct.pack("!IHH", token, 0, 0)
    pseudo = addresses + struct.pack("!BBH", 0, UDP, length)
    even = (checksum(pseudo + blank) - wanted) % 0xFFFF
    head = _UDP.pack(port, target.dst_port, length, wanted)
    return head + struct.pack("!IHH", token, even, 0)


def _ip(
    target: Target, src: bytes, dst: bytes, protocol: int, ttl: int, ident: int, label: int
) -> bytes:  # fmt: skip
    length = {TCP: _TCP.size, UDP: _UDP.size + 8}.get(protocol, _ECHO.size)
    if target.ipv6:
        first = 6 << 28 | target.tos << 20 | label
        return _V6.pack(first, length, protocol, ttl, src, dst)
    # The kernel fills in the header's checksum.
    total = _V4.size + length
    return _V4.pack(
        0x45, target.tos, total, ident, _DONT_FRAGMENT, ttl, protocol, 0, src, dst
    )  # fmt: skip


def _quoted4(target: Target, quoted: bytes) -> tuple[int, int, int] | None:
    # (token, source port, TTL) of a quoted IPv4 packet that was ours.
    if len(quoted) < _V4.size + 8:
        return None
    first, _, _, ident, _, ttl, protocol, _, src, dst = _V4.unpack_from(quoted)
    if first != 0x45 or (src, dst) != (_packed(target.src), _packed(target.dst)):
        return None
    body = quoted[_V4.size :]
    if protocol == ICMP:
        return _asked(body, ttl)
    source, destination, _, lower = struct.unpack_from("!HHHH", body)
    if protocol != target.protocol or destination != target.dst_port:
        return None
    token = ident << 16 | lower if protocol == UDP else struct.unpack_from("!I", body, 4)[0]
    return token, source, ttl


def _quoted6(target: Target, quoted: bytes) -> tuple[int, int, int] | None:
    # The same of IPv6, where more is quoted but there is no identification field.
    if len(quoted) < _V6.size + 8:
        return None
    _, _, protocol, ttl, src, dst = _V6.unpack_from(quoted)
    if (src, dst) != (_packed(target.src), _packed(target.dst)):
        return None
    body = quoted[_V6.size :]
    if protocol == ICMP6:
        return _asked(body, ttl)
    source, destination = struct.unpack_from("!HH", body)
    at = _UDP.size if protocol == UDP else 4
    if protocol != target.protocol or destination != target.dst_port or len(body) < at + 4:
        return None
    return struct.unpack_from("!I", body, at)[0], source, ttl


def _asked(body: bytes, ttl: int) -> tuple[int, int, int]:
    # The same of an echo request.
    _, _, _, ident, sequence = _ECHO.unpack_from(body)
    return ident << 16 | sequence, 0, ttl


def _pseudo(src: bytes, dst: bytes, protocol: int, length: int) -> bytes:
    if len(src) == 4:
        return src + dst + struct.pack("!BBH", 0, protocol, length)
    return src + dst + struct.pack("!II", length, protocol)


def _packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed
