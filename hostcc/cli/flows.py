"""`hostcc flows`: the jobs' TCP connections."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    emit,
    seconds,
    show,
    size,
    table,
)
from hostcc.errors import InputError
from hostcc.foreign import say
from hostcc.limits import JOB_NAME_WORDS, is_job_name

LIMIT_MAX = 50_000
COLUMNS = [
    ("Job", "left"),
    ("Local", "left"),
    ("Remote", "left"),
    ("State", "left"),
    ("Path", "left"),
    ("Wire port", "right"),
    ("DSCP", "right"),
    ("Level", "right"),
    ("Control", "left"),
    ("Window", "right"),
    ("RTT", "right"),
    ("Min. RTT", "right"),
    ("Pacing", "right"),
    ("Retrans.", "right"),
    ("Sent", "right"),
]


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "flows", "the jobs' TCP connections")
    add_client_options(parser)
    parser.add_argument("--job", metavar="NAME", help="only this job's")
    parser.add_argument(
        "--limit", type=int, default=1000, metavar="N", help="show at most N (default: 1000)"
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print them."""
    if args.job is not None and not is_job_name(args.job):
        raise InputError(f'--job: expected {JOB_NAME_WORDS}, got "{args.job[:80]}"')
    if not 1 <= args.limit <= LIMIT_MAX:
        raise InputError(f"--limit: expected 1 to {LIMIT_MAX}, got {args.limit}")
    return show(args, "flows", render, job=args.job, limit=args.limit)


def render(answer: dict[str, Any]) -> None:
    """The table."""
    flows = answer["flows"]
    if not flows:
        say("no connections")
        return
    emit(table(COLUMNS, map(row, flows)))
    if answer["total"] > len(flows):
        say(f"{len(flows)} of {answer['total']} connections; see --limit", file=sys.stderr)


def row(flow: dict[str, Any]) -> tuple[str, ...]:
    """One line; an agent that only observes knows less."""
    micros = {key: (flow.get(key) or 0) / 1e6 or None for key in ("srtt_us", "min_rtt_us")}
    return (
        flow["job"],
        flow["local"],
        flow["remote"],
        flow["state"],
        path(flow),
        number(flow.get("wire_port")),
        number(flow.get("dscp")),
        number(flow.get("level")),
        flow.get("congestion_control", "-"),
        str(flow.get("cwnd_packets", "-")),
        seconds(micros["srtt_us"]),
        seconds(micros["min_rtt_us"]),
        rate(flow.get("pacing_bytes_per_s")),
        str(flow.get("retransmitted_packets", "-")),
        size(flow.get("bytes_acked")),
    )


def path(flow: dict[str, Any]) -> str:
    """Which path it takes, and whether the plan wants that."""
    return f"{flow['path']} {flow['path_is']}" if flow.get("path") else "-"


def number(value: int | None) -> str:
    """A number that may be unknown."""
    return "-" if value is None else str(value)


def rate(bytes_per_s: float | None) -> str:
    """A rate in bits per second; "-" for none or no limit."""
    if not bytes_per_s:
        return "-"
    mbit = bytes_per_s * 8 / 1e6
    return f"{mbit / 1000:.1f} Gbit/s" if mbit >= 1000 else f"{mbit:.1f} Mbit/s"
