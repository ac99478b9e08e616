"""`hostcc peers`: the other members of the gossip."""

from __future__ import annotations

import argparse
from typing import Any

from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    emit,
    seconds,
    show,
    table,
)
from hostcc.foreign import say

DIGEST_SHOWN = 12
"""Digits of a digest that tell two apart for a person."""
COLUMNS = [
    ("Member", "left"),
    ("State", "left"),
    ("Round trip", "right"),
    ("Version", "left"),
    ("View", "left"),
    ("Last heard", "right"),
    ("Link", "left"),
    ("Address", "left"),
]


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "peers", "the hosts that this one gossips with")
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Ask and show."""
    return show(args, "peers", render)


def render(answer: dict[str, Any]) -> None:
    """The table, and which view this host itself holds."""
    key = f", its key is {answer['key']}" if answer["key"] else ""
    say(f"{answer['name']} (this host) holds view {short(answer['held'])}{key}")
    if answer["peers"]:
        emit(table(COLUMNS, map(row, answer["peers"])))
    else:
        say("no other members are known")
    others = *troubles(answer["troubles"]), *disagreements(answer["disagreements"])
    for line in (*restarts(answer.get("process")), *others):
        say(line)


def row(peer: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    heard = peer["heard_s"]
    return (
        peer["name"],
        f"{peer['state']}, shut out" if peer["shut_out"] else peer["state"],
        seconds(peer["rtt_s"]),
        peer["version"] or "-",
        short(peer["held"]),
        "never" if heard is None else f"{seconds(heard)} ago",
        peer["link"],
        peer["address"] or "-",
    )


def troubles(found: list[dict[str, Any]]) -> list[str]:
    """Why others are not reached, or not let in."""
    return [f"{one['who']}: {one['text']}" for one in found]


def restarts(process: dict[str, Any] | None) -> list[str]:
    """That the process with the connections has ended before, and why it did."""
    if process is None or not process["restarts"]:
        return []
    times = f"{process['restarts']} time{'s' if process['restarts'] > 1 else ''}"
    return [f"its process was started again {times}; the last one {process['reason']}"]


def disagreements(found: list[dict[str, Any]]) -> list[str]:
    """What is not the same on all members, so that they cannot agree on a plan."""
    return [
        f"{one['option']} differs: {one['here']} here, {'; '.join(map(_elsewhere, one['there']))}; "
        "hosts agree on plans only where it is the same"
        for one in found
    ]


def _elsewhere(there: dict[str, Any]) -> str:
    more = there["count"] - len(there["members"])
    return f"{there['value']} on {', '.join(there['members'])}{f' and {more} more' if more else ''}"


def short(digest: str) -> str:
    """As much of a digest as a person compares."""
    return digest[:DIGEST_SHOWN] or "-"
