"""Makes a classic BPF program that passes only possible answers to one search's probes.  Pure.

Somebody who floods a host with ICMP messages would fill the socket, and take the processor, before
any of them is parsed; so the kernel compares the upper half of the token (hostcc.paths.packets).
"""

from __future__ import annotations

import struct

from hostcc.paths.packets import UDP, Target

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand (linux/filter.h)."""

_IP4_BYTES, _IP6_BYTES, _ICMP_BYTES, _UDP_BYTES = 20, 40, 8, 8
_ECHO_REPLY, _ECHO_REPLY6 = 0, 129
# Of an echo message, and of a TCP header's sequence number.
_IDENT_AT = 4
_IP4_IDENT_AT = 4
# LD B IND, LD H IND, and LDX of an IPv4 header's length.
_LOAD_BYTE, _LOAD_HALF, _LOAD_LENGTH = 0x50, 0x48, 0xB1
_LOAD_X, _IF_EQUAL, _RETURN = 0x01, 0x15, 0x06
_ALL = 0xFFFF


def program(target: Target, prefix: int) -> list[Instruction]:
    """Make a filter that accepts echo replies and quoted packets with these 16 bits.

    It sees IPv4 packets from their header on, ICMPv6 messages without one.
    """
    if target.ipv6:
        start: Instruction = (_LOAD_X, 0, 0, 0)
        reply, quoted, protocol_at, echo = _ECHO_REPLY6, _IP6_BYTES, 6, 58
        own = _ICMP_BYTES + _IP6_BYTES + (_UDP_BYTES if target.protocol == UDP else _IDENT_AT)
    else:
        start = (_LOAD_LENGTH, 0, 0, 0)
        reply, quoted, protocol_at, echo = _ECHO_REPLY, _IP4_BYTES, 9, 1
        own = _ICMP_BYTES + (_IP4_IDENT_AT if target.protocol == UDP else _IP4_BYTES + _IDENT_AT)
    return [
        start,
        (_LOAD_BYTE, 0, 0, 0),
        (_IF_EQUAL, 6, 0, reply),
        (_LOAD_BYTE, 0, 0, _ICMP_BYTES + protocol_at),
        (_IF_EQUAL, 2, 0, echo),
        (_LOAD_HALF, 0, 0, own),
        (_IF_EQUAL, 4, 5, prefix),
        (_LOAD_HALF, 0, 0, _ICMP_BYTES + quoted + _IDENT_AT),
        (_IF_EQUAL, 2, 3, prefix),
        (_LOAD_HALF, 0, 0, _IDENT_AT),
        (_IF_EQUAL, 0, 1, prefix),
        (_RETURN, 0, 0, _ALL),
        (_RETURN, 0, 0, 0),
    ]


def encoded(instructions: list[Instruction]) -> bytes:
    """Encode a filter for the kernel: an array of struct sock_filter."""
    return b"".join(struct.pack("=HBBI", *one) for one in instructions)
