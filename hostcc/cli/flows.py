"""`hostcc flows`: the jobs' TCP connections."""

from __future__ import annotations

import argparse
import sys

from msgspec import UNSET, UnsetType

from hostcc.answers.flows import FlowRow, Flows
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
    return show(args, "flows", Flows, render, job=args.job, limit=args.limit)


def render(answer: Flows) -> None:
    """The table."""
    flows = answer.flows
    if not flows:
        say("no connections")
        return
    emit(table(COLUMNS, map(row, flows)))
    if answer.total > len(flows):
        say(f"{len(flows)} of {answer.total} connections; see --limit", file=sys.stderr)


def row(flow: FlowRow) -> tuple[str, ...]:
    """One line; an agent that only observes knows less."""
    return (
        flow.job,
        flow.local,
        flow.remote,
        flow.state,
        path(flow),
        number(flow.wire_port),
        number(flow.dscp),
        number(flow.level),
        flow.congestion_control or "-",
        number(flow.cwnd_packets),
        round_trip(flow.srtt_us),
        round_trip(flow.min_rtt_us),
        rate(flow.pacing_bytes_per_s),
        number(flow.retransmitted_packets),
        size(None if flow.bytes_acked is UNSET else flow.bytes_acked),
    )


def path(flow: FlowRow) -> str:
    """Which path it takes, and whether the plan wants that."""
    return f"{flow.path} {flow.path_is}" if flow.path else "-"


def number(value: int | UnsetType | None) -> str:
    """A number that may be unknown."""
    return str(value) if isinstance(value, int) else "-"


def round_trip(micros: int | UnsetType | None) -> str:
    """A time in microseconds that may be unknown."""
    return seconds(micros / 1e6) if micros else "-"


def rate(bytes_per_s: float | UnsetType | None) -> str:
    """A rate in bits per second; "-" for none or no limit."""
    if not bytes_per_s:
        return "-"
    mbit = bytes_per_s * 8 / 1e6
    return f"{mbit / 1000:.1f} Gbit/s" if mbit >= 1000 else f"{mbit:.1f} Mbit/s"
