"""Probe packets: the fields that matter, and answers however they are mangled."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.paths import packets
from hostcc.paths.packets import TCP, UDP, Kind, Reply, Target

pytestmark = pytest.mark.unit

TARGETS = [
    Target("198.18.0.2", "198.18.1.2", TCP, 5001),
    Target("198.18.0.2", "198.18.1.2", UDP),
    Target("fd00:4843::1", "fd00:4843::2", TCP, 5001, tos=0xB8, flow_label=0x12345),
    Target("fd00:4843::1", "fd00:4843::2", UDP),
]
targets = st.sampled_from(TARGETS)


def header_bytes(target: Target) -> int:
    return 40 if target.ipv6 else 20


tokens = st.integers(1, 0xFFFF).flatmap(
    lambda upper: st.integers(1, 0xFFFF).map(lambda lower: upper << 16 | lower)
)
TOKEN = 0x4843_0009


def exceeded(target: Target, packet: bytes, left: int = 1) -> bytes:
    """The ICMP message of a router that quotes as much as the oldest ones do."""
    at = 7 if target.ipv6 else 8
    packet = packet[:at] + bytes([left]) + packet[at + 1 :]
    quoted = packet[: header_bytes(target) + 8]
    if target.ipv6:
        return struct.pack("!BBHI", 3, 0, 0, 0) + packet[:1232]
    return struct.pack("!BBHI", 11, 0, 0, 0) + quoted


@given(target=targets, port=st.integers(1, 65535), ttl=st.integers(1, 64), token=tokens)
def test_round_trip(target: Target, port: int, ttl: int, token: int) -> None:
    packet = packets.probe(target, port, ttl, token)
    body = packet[header_bytes(target) :]
    assert struct.unpack_from("!HH", body) == (port, target.dst_port)
    assert packet[7 if target.ipv6 else 8] == ttl
    reply = packets.parse_reply(target, "router", exceeded(target, packet))
    assert reply == Reply(Kind.HOP, "router", token, port, 1)
    assert packets.parse_reply(target, "router", exceeded(target, packet, 2)) is None


@given(port=st.integers(1, 65535), token=tokens, v6=st.booleans())
def test_a_tcp_probe_can_do_no_harm(port: int, token: int, v6: bool) -> None:
    target = TARGETS[2 if v6 else 0]
    packet = packets.probe(target, port, 4, token)
    body = packet[header_bytes(target) :]
    assert body[13] == 0  # no flag, not even ACK
    assert len(body) == 20  # no data
    pseudo = packets._pseudo(
        packets._packed(target.src), packets._packed(target.dst), TCP, len(body)
    )
    assert packets.checksum(pseudo + body) != 0


def test_a_udp_probe_is_no_roce_packet() -> None:
    body = packets.probe(TARGETS[1], 50000, 4, TOKEN)[20:]
    assert struct.unpack_from("!HHHH", body) == (50000, 4791, 16, 9)
    assert len(body) - 8 < 12 + 4  # transport header and ICRC


@given(token=tokens)
def test_the_checksum_of_a_udp_probe_is_right_whatever_it_says(token: int) -> None:
    target = TARGETS[1]
    body = packets.probe(target, 50000, 4, token)[20:]
    addresses = packets._packed(target.src) + packets._packed(target.dst)
    assert packets.checksum(addresses + struct.pack("!BBH", 0, UDP, len(body)) + body) == 0


@given(target=targets, ttl=st.integers(1, 64), token=tokens)
def test_echo(target: Target, ttl: int, token: int) -> None:
    packet = packets.echo(target, ttl, token)
    reply = packets.parse_reply(target, "router", exceeded(target, packet))
    assert reply == Reply(Kind.HOP, "router", token, 0, 1)
    body = packet[header_bytes(target) :]
    answer = struct.pack("!BB", 129 if target.ipv6 else 0, 0) + body[2:]
    assert packets.parse_reply(target, target.dst, answer) == Reply(
        Kind.REACHED, target.dst, token, 0
    )
    assert packets.parse_reply(target, "198.18.9.9", answer) is None


def test_unreachable() -> None:
    target = TARGETS[1]
    quoted = packets.probe(target, 50000, 4, TOKEN)
    closed = struct.pack("!BBHI", 3, 3, 0, 0) + quoted
    assert packets.parse_reply(target, target.dst, closed) == Reply(
        Kind.REACHED, target.dst, TOKEN, 50000, 4
    )
    filtered = struct.pack("!BBHI", 3, 13, 0, 0) + quoted
    assert packets.parse_reply(target, "198.18.0.1", filtered) == Reply(
        Kind.REFUSED, "198.18.0.1", TOKEN, 50000, 4
    )


@given(target=targets, data=st.binary(max_size=200))
def test_anything_may_arrive(target: Target, data: bytes) -> None:
    reply = packets.parse_reply(target, target.dst, data)
    assert reply is None or reply.kind in Kind


@given(target=targets, cut=st.integers(0, 60), flip=st.integers(0, 59))
def test_mangled_answers(target: Target, cut: int, flip: int) -> None:
    message = bytearray(exceeded(target, packets.probe(target, 50000, 3, 77)))
    message[flip % len(message)] ^= 0xFF
    packets.parse_reply(target, "198.18.0.1", bytes(message)[:cut])


def test_others_packets_are_not_ours() -> None:
    target = TARGETS[0]
    other = Target(target.src, "198.18.7.7", TCP, target.dst_port)
    message = exceeded(other, packets.probe(other, 50000, 3, 77))
    assert packets.parse_reply(target, "198.18.0.1", message) is None
    other = Target(target.src, target.dst, TCP, 80)
    message = exceeded(other, packets.probe(other, 50000, 3, 77))
    assert packets.parse_reply(target, "198.18.0.1", message) is None


def test_a_probe_by_label_has_its_port_as_label() -> None:
    target = Target("fd00::1", "fd00::2", TCP, 5301, by_label=True)
    packet = packets.probe(target, 61007, 2, 9)
    assert int.from_bytes(packet[:4], "big") & 0xFFFFF == 61007
    assert int.from_bytes(packet[40:42], "big") == 61007
    plain = packets.probe(replace(target, by_label=False), 61007, 2, 9)
    assert int.from_bytes(plain[:4], "big") & 0xFFFFF == 0
