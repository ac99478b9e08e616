"""Path discovery by probing: paths found, ports, packets and time.

Leaf-spine fabrics of the kernel's own routers, each of which limits its ICMP errors.  Details:
docs/internals/paths.md.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Annotated

import msgspec

from benchmarks import options
from benchmarks.context import Context
from benchmarks.headings import Heading, cells, columns
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.errors import HostccError
from hostcc.lab import netns
from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_plan import LeafSpineSpec
from hostcc.paths import source_ports
from hostcc.paths.packets import TCP, UDP, Target
from hostcc.paths.prober import search

PROTOCOLS = {"tcp": TCP, "udp": UDP}


class Figures(msgspec.Struct, frozen=True):
    """One search."""

    found: Annotated[int, Heading("found", 0)]
    ports: Annotated[int, Heading("until sure", 0)]
    """Until the search was sure."""
    needed: Annotated[int, Heading("ports until all seen", 0)]
    """Until the last path was seen for the first time."""
    probes: Annotated[int, Heading("packets", 0)]
    lost: Annotated[int, Heading("unanswered", 0)]
    seconds: Annotated[float, Heading("s", 2)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Numbers of spines."""
    parser.add_argument(
        "--spines", type=options.wholes("--spines", 1, 60), default=(2, 4, 8, 16),
        metavar="N,N,...", help="paths between two hosts (default: 2,4,8,16)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    found: dict[tuple[int, str, str], list[Figures]] = {}
    failures: list[str] = []
    for done, spines in enumerate(args.spines):
        context.tell(f"{spines} spines", done, len(args.spines))
        try:
            with LeafSpine(LeafSpineSpec(spines=spines)) as fabric:
                for number in range(context.runs):
                    for family in ("ipv4", "ipv6"):
                        for protocol in PROTOCOLS:
                            figures = measure(fabric, family, protocol, number)
                            found.setdefault((spines, family, protocol), []).append(figures)
        except (HostccError, OSError) as error:
            failures.append(f"{spines} spines: {error}")
    return Record(
        benchmark="probe-paths",
        title="paths found by probing",
        parameters={"spines": list(args.spines), "runs": context.runs},
        columns=[
            Column("paths", "paths", digits=0),
            Column("family", "family"),
            Column("protocol", "protocol"),
            *columns(Figures, "found", "needed"),
            Column("expected", "expected", digits=1),
            *columns(Figures, "ports", "probes", "lost", "seconds"),
        ],
        rows=[_row(*case) for case in found.items()],
        goals=[_goal(*case) for case in found.items()],
        failures=failures,
    )


def measure(fabric: LeafSpine, family: str, protocol: str, number: int) -> Figures:
    """One search; another destination port each time.  Raises HostccError."""
    one, two = fabric.host(1), fabric.host(2)
    ends = (one.address6, two.address6) if family == "ipv6" else (one.address, two.address)
    target = Target(*ends, PROTOCOLS[protocol], 5000 + number)
    start = time.monotonic()
    found = netns.inside(
        fabric.namespace("h1"), partial(search, target, source_ports.candidate_ports())
    )  # fmt: skip
    seconds = time.monotonic() - start
    seen: set[tuple[str, ...]] = set()
    needed = 0
    for tried, hops in enumerate(found.ports.values(), 1):
        if hops not in seen:
            seen.add(hops)
            needed = tried
    return Figures(len(found.paths), len(found.ports), needed, found.probes, found.lost, seconds)


def _goal(case: tuple[int, str, str], runs: list[Figures]) -> Verdict:
    whole = [int(one.found == case[0]) for one in runs]
    scope = f"{case[0]} paths, {case[1]}, {case[2]}"
    # The accepted risk is a hundredth; of few runs one may be that, but not most.
    met = sum(whole) >= 0.99 * len(whole) - 1 and 2 * sum(whole) > len(whole)
    return Verdict(scope, "every path found", spread([one.found for one in runs]), sum(whole), met)


def _row(case: tuple[int, str, str], runs: list[Figures]) -> dict[str, Cell]:
    return {
        "paths": case[0],
        "family": case[1],
        "protocol": case[2],
        "expected": source_ports.expected_ports(case[0]),
        **cells(runs),
    }
