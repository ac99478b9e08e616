"""What the two tc programs do to packets of every shape, one packet at a time."""

from __future__ import annotations

import ipaddress
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import object_path
from hostcc.paths.packets import ICMP, ICMP6, TCP, UDP, checksum
from tests.paths.packet_run import run_packet

pytestmark = pytest.mark.kernel

V4 = ("198.18.0.2", "198.18.1.2")
V6 = ("fd00:4843:100::2", "fd00:4843:101::2")
OWN, WIRE, DST = 40000, 50000, 80
ACK, SYN, RST = 0x10, 0x02, 0x04
SEQ, ACKED = 7, 9
"""What packets here carry unless they say otherwise."""
SHAPES = ["plain", "vlan", "qinq", "options"]
STALE_S, KEEP_S = 1000, 10
"""Heartbeats are good for longer than any test stands still."""


class Programs:
    def __init__(self, obj: BpfObject) -> None:
        self.obj = obj
        self.out, self.into = obj.map("steer_out"), obj.map("steer_in")
        self.beat()

    def beat(self, age_s: float = 0.0, stale_s: float = STALE_S) -> None:
        at_ns = time.monotonic_ns() - int(age_s * 1e9)
        self.obj.map("steer_conf").update(0, (at_ns, int(stale_s * 1e9), KEEP_S * 10**9))

    def leave(self, ends: tuple[str, str], kind: str = "STEER_REWRITE", label: int = 0) -> None:
        enum = self.obj.enums
        self.out.update(key(*ends, WIRE), (enum["STEER_GUARD"], 0, 0, OWN, *[0] * 5))
        self.out.update(key(*ends, OWN), (enum[kind], 0, label, WIRE, *[0] * 5))

    def arrive(self, ends: tuple[str, str], idle_s: float = 0.0) -> None:
        used = time.monotonic_ns() - int(idle_s * 1e9)
        self.into.update(key(*ends, WIRE), (used, 0, 1, 0, OWN, 0))

    def run(self, hook: str, packet: bytes) -> bytes:
        after, verdict = run_packet(self.obj.program_fd(f"steer_{hook}"), packet)
        assert verdict == -1  # others' filters still run
        return after

    def broken(self, ends: tuple[str, str]) -> int:
        return int(self.out.lookup(key(*ends, OWN))["broken"])

    def strays(self, name: str) -> int:
        return int(self.obj.map("steer_strays").lookup(0)[name])


@pytest.fixture
def programs() -> Iterator[Programs]:
    with BpfObject.open(object_path("steer")) as obj:
        obj.load()
        yield Programs(obj)


def key(src: str, dst: str, sport: int, dport: int = DST) -> tuple[object, ...]:
    return (mapped(src), mapped(dst), sport, dport)


def mapped(address: str) -> list[int]:
    parsed = ipaddress.ip_address(address)
    return list(parsed.packed if parsed.version == 6 else b"\0" * 10 + b"\xff\xff" + parsed.packed)


def packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def pseudo(src: str, dst: str, protocol: int, length: int) -> bytes:
    if ":" in src:
        return packed(src) + packed(dst) + struct.pack("!II", length, protocol)
    return packed(src) + packed(dst) + struct.pack("!BBH", 0, protocol, length)


def tcp(
    src: str, dst: str, sport: int, flags: int = ACK, dport: int = DST, seq: int = SEQ,
    ack: int = ACKED,
) -> bytes:  # fmt: skip
    def made(csum: int) -> bytes:
        head = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 5 << 4, flags, 100, csum, 0)
        return head + b"payload!" * 8

    return made(checksum(pseudo(src, dst, TCP, 84) + made(0)))


def ip(src: str, dst: str, body: bytes, shape: str = "plain", protocol: int = TCP,
       frag: int = 0) -> bytes:  # fmt: skip
    if ":" in src:
        extra = b""
        if shape == "options":  # hop-by-hop, then destination options
            extra = bytes([60, 0, 1, 4, 0, 0, 0, 0]) + bytes([protocol, 1, 1, 12]) + bytes(12)
            protocol = 0
        if frag:
            extra = struct.pack("!BBHI", protocol, 0, frag, 1)
            protocol = 44
        head = struct.pack("!IHBB", 6 << 28 | 0x12345, len(extra) + len(body), protocol, 64)
        return head + packed(src) + packed(dst) + extra + body
    options = b"\x01" * 8 if shape == "options" else b""
    ihl = 5 + len(options) // 4
    total = ihl * 4 + len(body)
    head = struct.pack("!BBHHHBBH", 0x40 | ihl, 0, total, 1, frag, 64, protocol, 0)
    return head + packed(src) + packed(dst) + options + body


def frame(payload: bytes, shape: str = "plain") -> bytes:
    proto = 0x86DD if payload[0] >> 4 == 6 else 0x0800
    tags = {"vlan": [(0x8100, 7)], "qinq": [(0x88A8, 7), (0x8100, 8)]}.get(shape, [])
    middle = b"".join(struct.pack("!HH", kind, number) for kind, number in tags)
    return b"\x02" * 6 + b"\x04" * 6 + middle + struct.pack("!H", proto) + payload


def whole(ends: tuple[str, str], sport: int, shape: str = "plain", flags: int = ACK) -> bytes:
    return frame(ip(*ends, tcp(*ends, sport, flags), shape), shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ends", [V4, V6])
def test_there_and_back(programs: Programs, ends: tuple[str, str], shape: str) -> None:
    programs.leave(ends)
    programs.arrive(ends)
    before = whole(ends, OWN, shape)
    on_wire = programs.run("egress", before)
    assert on_wire == whole(ends, WIRE, shape)  # the port and the checksum, nothing else
    assert programs.run("ingress", on_wire) == before
    assert programs.out.lookup(key(*ends, OWN))["packets"] == 1


@pytest.mark.parametrize("ends", [V4, V6])
def test_only_that_flow(programs: Programs, ends: tuple[str, str]) -> None:
    programs.leave(ends)
    programs.arrive(ends)
    for packet in (
        whole(ends, 40001),
        whole((ends[1], ends[0]), OWN),
        frame(ip(*ends, tcp(*ends, OWN, dport=81))),
        frame(ip(*ends, struct.pack("!HHHH", OWN, DST, 16, 0) + b"12345678", protocol=UDP)),
        whole(ends, OWN, flags=0),  # a probe keeps the port that it asks about
        whole(ends, OWN)[:54] if ends is V6 else whole(ends, OWN)[:53],
    ):
        assert programs.run("egress", packet) == packet
    for packet in (whole(ends, 50001), whole(ends, OWN), whole((ends[1], ends[0]), WIRE)):
        assert programs.run("ingress", packet) == packet


@pytest.mark.parametrize("ends", [V4, V6])
def test_fragments(programs: Programs, ends: tuple[str, str]) -> None:
    """The first one has the ports; what follows has none and looks like anything."""
    programs.leave(ends)
    first, later = (0x2000, 0x2010) if ends is V4 else (0x0001, 0x0081)
    packet = frame(ip(*ends, tcp(*ends, OWN), frag=first))
    assert programs.run("egress", packet) == frame(ip(*ends, tcp(*ends, WIRE), frag=first))
    packet = frame(ip(*ends, tcp(*ends, OWN), frag=later))
    assert programs.run("egress", packet) == packet


def test_a_silent_agent_means_the_socket_s_own_port(programs: Programs) -> None:
    programs.leave(V4)
    programs.arrive(V4)
    programs.beat(age_s=2.0, stale_s=1.0)
    assert programs.run("egress", whole(V4, OWN)) == whole(V4, OWN)
    # but what is on its way is still understood:
    assert programs.run("ingress", whole(V4, WIRE)) == whole(V4, OWN)


def test_an_unused_translation_ends_by_itself(programs: Programs) -> None:
    programs.arrive(V4, idle_s=KEEP_S / 2)  # more would be over when this process stands still
    assert programs.run("ingress", whole(V4, WIRE)) == whole(V4, OWN)
    programs.arrive(V4, idle_s=KEEP_S + 1)
    assert programs.run("ingress", whole(V4, WIRE)) == whole(V4, WIRE)
    assert programs.into.lookup(key(*V4, WIRE)) is None


@pytest.mark.parametrize("ends", [V4, V6])
def test_a_reset_of_the_port_on_the_wire_stops_the_rewriting(
    programs: Programs, ends: tuple[str, str]
) -> None:
    programs.leave(ends)
    for early in (answer(ends, RST, seq=0), answer(ends, RST)):  # nothing has left rewritten yet
        assert programs.run("ingress", early) == early
    assert programs.run("egress", whole(ends, OWN)) == whole(ends, WIRE)
    other = answer(ends, RST, dport=OWN)
    assert programs.run("ingress", other) == other
    assert (programs.broken(ends), programs.strays("resets")) == (0, 2)
    reset = answer(ends, RST)
    assert programs.run("ingress", reset) == reset
    assert programs.broken(ends) == programs.obj.enums["STEER_RESET"]
    assert programs.run("egress", whole(ends, OWN)) == whole(ends, OWN)


def answer(
    ends: tuple[str, str], flags: int, dport: int = WIRE, seq: int = ACKED, ack: int = 0
) -> bytes:
    """What the receiver sends; a reset has the number that it was told it may go on with."""
    there, here = ends[1], ends[0]
    return frame(ip(there, here, tcp(there, here, DST, flags, dport, seq, ack)))


@pytest.mark.parametrize("ends", [V4, V6])
def test_a_forged_reset_stops_nothing(programs: Programs, ends: tuple[str, str]) -> None:
    programs.leave(ends)
    programs.run("egress", whole(ends, OWN))
    near = [ACKED + away for away in (-9, -1, 1, 1 << 31)]
    for seq in near:
        forged = answer(ends, RST, seq=seq)
        assert programs.run("ingress", forged) == forged
    assert (programs.broken(ends), programs.strays("resets")) == (0, len(near))


def test_resets_end_so_many_flows_a_second_and_no_more(programs: Programs) -> None:
    most = programs.obj.enums["STEER_RESETS"]
    programs.leave(V4)
    programs.run("egress", whole(V4, OWN))
    strays = programs.obj.map("steer_strays")
    while not programs.strays("over"):  # once more if a new second began meanwhile
        strays.update(0, (0, 0, 0, time.monotonic_ns() // 10**9, most))
        programs.leave(V4)
        programs.run("egress", whole(V4, OWN))
        programs.run("ingress", answer(V4, RST))
    assert programs.broken(V4) == 0


def test_a_real_connection_on_the_port_wins(programs: Programs) -> None:
    programs.leave(V4)
    programs.arrive(V4)
    syn = whole(V4, WIRE, flags=SYN)
    assert programs.run("egress", whole(V4, WIRE)) == whole(V4, WIRE)
    assert programs.broken(V4) == 0  # no SYN: a late packet of nobody
    assert programs.run("egress", syn) == syn
    assert programs.broken(V4) == programs.obj.enums["STEER_COLLISION"]
    assert programs.run("ingress", syn) == syn
    answered = answer(V4, SYN | ACK, seq=6000)
    assert programs.run("egress", answered) == answered
    shaken = frame(ip(*V4, tcp(*V4, WIRE, ack=6001)))
    assert programs.run("ingress", shaken) == shaken
    assert programs.into.lookup(key(*V4, WIRE)) is None


@pytest.mark.parametrize("ends", [V4, V6])
def test_a_forged_syn_ends_no_translation(programs: Programs, ends: tuple[str, str]) -> None:
    """Who does not see the answer cannot complete the handshake."""
    programs.arrive(ends)
    syn, moved = whole(ends, WIRE, flags=SYN), whole(ends, WIRE)
    assert programs.run("ingress", syn) == syn  # as it is: nobody's ports are given to it
    for answered in (False, True):
        if answered:
            programs.run("egress", answer(ends, SYN | ACK, seq=6000))
        for ack in (0, 6000, 6002):
            guess = frame(ip(*ends, tcp(*ends, WIRE, ack=ack)))
            assert programs.run("ingress", guess) == frame(ip(*ends, tcp(*ends, OWN, ack=ack)))
    assert programs.run("ingress", moved) == whole(ends, OWN)
    assert programs.strays("syns") == 1


def test_a_new_connection_with_the_old_ports_starts_plain(programs: Programs) -> None:
    programs.leave(V4)
    assert programs.run("egress", whole(V4, OWN, flags=SYN)) == whole(V4, OWN, flags=SYN)
    assert programs.broken(V4) == programs.obj.enums["STEER_ENDED"]
    assert programs.run("egress", whole(V4, OWN)) == whole(V4, OWN)


def test_flow_label(programs: Programs) -> None:
    programs.leave(V6, "STEER_LABEL", 0xABCDE)
    before = whole(V6, OWN)
    after = programs.run("egress", before)
    assert struct.unpack_from("!I", after, 14)[0] == 6 << 28 | 0xABCDE
    assert after[18:] == before[18:]


def icmp(ends: tuple[str, str], kind: int, sport: int, quoted: int) -> bytes:
    """An error from a router to the sender about its own packet."""
    inside = ip(*ends, tcp(*ends, sport))[:quoted]
    v6 = ":" in ends[0]
    router = "fd00:4843::99" if v6 else "198.19.0.2"
    blank = struct.pack("!BBHI", kind, 0 if v6 else 4, 0, 1400) + inside
    over = pseudo(router, ends[0], ICMP6, len(blank)) + blank if v6 else blank
    csum = checksum(over)
    body = struct.pack("!BBHI", kind, 0 if v6 else 4, csum, 1400) + inside
    return frame(ip(router, ends[0], body, protocol=ICMP6 if v6 else ICMP))


@pytest.mark.parametrize("quoted", ["little", "much"])
@pytest.mark.parametrize(("ends", "kinds"), [(V4, [3]), (V6, [1, 2])])
def test_errors_about_the_wire_reach_the_socket(
    programs: Programs, ends: tuple[str, str], kinds: list[int], quoted: str
) -> None:
    programs.leave(ends)
    size = (48 if ":" in ends[0] else 28) + (0 if quoted == "little" else 30)
    for kind in kinds:
        after = programs.run("ingress", icmp(ends, kind, WIRE, size))
        expected = icmp(ends, kind, OWN, size)
        # The quoted TCP checksum, where quoted, stays as it was on the wire.
        assert _ports(after) == _ports(expected)
        assert _icmp_sum(after, ends) == 0
        unrelated = icmp(ends, kind, 50001, size)
        assert programs.run("ingress", unrelated) == unrelated
    exceeded = icmp(ends, 3 if ":" in ends[0] else 11, WIRE, size)
    assert programs.run("ingress", exceeded) == exceeded


def _ports(packet: bytes) -> tuple[int, ...]:
    at = 14 + 40 + 8 + 40 if packet[12:14] == b"\x86\xdd" else 14 + 20 + 8 + 20
    return struct.unpack_from("!HH", packet, at)


def _icmp_sum(packet: bytes, ends: tuple[str, str]) -> int:
    if ":" in ends[0]:
        body = packet[54:]
        return checksum(pseudo("fd00:4843::99", ends[0], ICMP6, len(body)) + body)
    return checksum(packet[34:])


def test_garbage(programs: Programs) -> None:
    draw: Callable[[int], int] = lambda n: n * 197 % 251  # noqa: E731
    for hook in ("egress", "ingress"):
        for size in (54, 60, 66, 90):
            for head in (0x0800, 0x86DD, 0x8100, 0x0806):
                body = bytes(draw(n + size) for n in range(size))
                packet = body[:12] + struct.pack("!H", head) + body[14:]
                assert programs.run(hook, packet) == packet
