"""`hostcc probe DST`: the paths to a host, and which source ports take them."""

from __future__ import annotations

import argparse
import ipaddress
import time

from hostcc.cli.common import Subparsers, add_parser, emit, print_json, seconds, table
from hostcc.errors import Exit, InputError
from hostcc.foreign import say
from hostcc.model import PathTable
from hostcc.paths import packets, probed_tables, prober, source_ports
from hostcc.paths.drawing import drawing
from hostcc.paths.packets import Target
from hostcc.paths.probe_socket import source_address
from hostcc.paths.search import SearchResult, SearchSettings
from hostcc.paths.sources import PROTOCOLS

COLUMNS = [
    ("Path", "left"),
    ("Hops", "left"),
    ("RTT", "right"),
    ("Ports", "right"),
    ("For example", "left"),
]
SCHEMA = "hostcc.probe/1"
SHOWN_PORTS = 8


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(
        subparsers, "probe", "the paths to a host and the source ports that choose them"
    )
    parser.add_argument("dst", metavar="DST", help="IPv4 or IPv6 address")
    parser.add_argument("--from", dest="src", default="", metavar="ADDRESS", help="source address")
    parser.add_argument(
        "--protocol", choices=sorted(PROTOCOLS), default="tcp", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--port", type=int, metavar="N",
        help="destination port of the flows (default: 5000 for TCP, 4791, RoCE, for UDP)",
    )  # fmt: skip
    parser.add_argument(
        "--ports", default=f"{source_ports.FIRST_PORT}-{source_ports.LAST_PORT}", metavar="A-B",
        help="source ports to try (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--risk", type=float, default=0.01, metavar="X",
        help="accepted probability of missing a path (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--rate", type=float, default=50.0, metavar="PPS",
        help="probes per second that end at one hop (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S",
        help="stop after so long (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON (docs/internals/paths.md)")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Probe."""
    target = _target(args)
    ports = _ports(args.ports)
    for option, value, least, most in (
        ("--risk", args.risk, 1e-9, 0.5),
        ("--rate", args.rate, 0.1, 10_000.0),
        ("--seconds", args.seconds, 0.1, 3600.0),
    ):
        if not least <= value <= most:
            raise InputError(f"{option}: expected a number from {least:g} to {most:g}, got {value}")
    settings = SearchSettings(risk=args.risk, per_hop_pps=args.rate, max_ports=len(ports))
    found = prober.search(target, ports, settings, limit_s=args.seconds)
    made = probed_tables.probed_table(target.src, target.dst, found, time.time())
    if args.json:
        print_json(as_json(target, found, made))
    else:
        _show(target, found, made)
    return Exit.OK if made.paths else Exit.FAILED


def as_json(target: Target, found: SearchResult, made: PathTable) -> dict[str, object]:
    """What --json prints."""
    hops_of = {
        probed_tables.path_id(probed_tables.links_of(made.src, made.dst, h)): h for h in found.paths
    }
    return {
        "schema": SCHEMA,
        "src": made.src,
        "dst": made.dst,
        "protocol": next(name for name, n in PROTOCOLS.items() if n == target.protocol),
        "dst_port": target.dst_port,
        "probed_at": made.probed_at,
        "distance": found.distance,
        "probes": found.probes,
        "lost": found.lost,
        "confidence": round(found.confidence, 6),
        "missed_risk": found.missed_risk,
        "per_packet": found.sprayed,
        "unconfirmed": found.unconfirmed,
        "paths": [
            {
                "id": path.id,
                "hops": list(hops_of[path.id]),
                "links": list(path.links),
                "ports": list(path.ports),
                "rtt_s": found.rtt_s.get(hops_of[path.id]),
            }
            for path in made.paths
        ],
    }


def _show(target: Target, found: SearchResult, made: PathTable) -> None:
    ids = {
        h: probed_tables.path_id(probed_tables.links_of(target.src, target.dst, h))
        for h in found.paths
    }
    if made.paths:
        say(drawing(target.src, target.dst, ids) + "\n")
        rows = []
        for hops, ports in sorted(found.paths.items(), key=lambda item: ids[item[0]]):
            more = " ..." if len(ports) > SHOWN_PORTS else ""
            some = " ".join(map(str, ports[:SHOWN_PORTS])) + more
            rows.append(
                (ids[hops], " ".join(hops), seconds(found.rtt_s.get(hops)), str(len(ports)), some)
            )
        emit(table(COLUMNS, rows))
        say()
    paths, tried = len(found.paths), len(found.ports)
    say(
        f"paths: {paths}, ports: {tried}, probes: {found.probes}, without an answer: {found.lost}; "
        f"confidence {found.confidence:.3f} (to see so many paths takes "
        f"{source_ports.expected_ports(paths):.1f} ports on average)"
    )
    if found.sprayed:
        say("packets of one port took several ways: here the source port does not choose")
    if found.unconfirmed:
        say(f"{found.unconfirmed} ICMP messages were not believed: forged, late, or from a router")


def _target(args: argparse.Namespace) -> Target:
    protocol = PROTOCOLS[args.protocol]
    port = args.port
    if port is None:
        port = packets.ROCE_PORT if protocol == packets.UDP else 5000
    if not 1 <= port <= 65535:
        raise InputError(f"--port: expected 1 to 65535, got {port}")
    src = source_address(args.dst) if not args.src else args.src
    try:
        families = {ipaddress.ip_address(src).version, ipaddress.ip_address(args.dst).version}
    except ValueError:
        raise InputError("DST and --from: expected IP addresses") from None
    if len(families) > 1:
        raise InputError(f"--from: expected an address of the family of {args.dst}, got {src}")
    return Target(src, args.dst, protocol, port)


def _ports(text: str) -> range:
    low, dash, high = text.partition("-")
    try:
        first, last = int(low), int(high if dash else low)
    except ValueError:
        first, last = 1, 0
    if not 1 <= first <= last <= 65535:
        raise InputError(f"--ports: expected A-B with 1 <= A <= B <= 65535, got {text!r:.40}")
    return range(first, last + 1)
