"""`hostcc peers`: the other members of the gossip."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from hostcc.answers.gossip import (
    Disagreement,
    OtherOptions,
    Peers,
    PeerStatus,
    ProcessStatus,
    Trouble,
)
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
    ("Clock within", "right"),
    ("Version", "left"),
    ("View", "left"),
    ("Plan", "left"),
    ("Differs in", "left"),
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
    return show(args, "peers", Peers, render)


def render(answer: Peers) -> None:
    """The table, and which view this host itself holds."""
    key = f", its key is {answer.key}" if answer.key else ""
    say(
        f"{answer.name} (this host) holds view {short(answer.held)}, plan {short(answer.plan)}{key}"
    )
    if answer.peers:
        emit(table(COLUMNS, map(row, answer.peers)))
    else:
        say("no other members are known")
    others = *troubles(answer.troubles), *disagreements(answer.disagreements)
    for line in (*restarts(answer.process), *others):
        say(line)


def row(peer: PeerStatus) -> tuple[str, ...]:
    """One line of the table."""
    heard = peer.heard_s
    return (
        peer.name,
        f"{peer.state}, shut out" if peer.shut_out else peer.state,
        seconds(peer.rtt_s),
        seconds(peer.clock_error_s),
        peer.version or "-",
        short(peer.held),
        short(peer.plan),
        ", ".join(peer.differs) or "-",
        "never" if heard is None else f"{seconds(heard)} ago",
        peer.link,
        peer.address or "-",
    )


def troubles(found: Sequence[Trouble]) -> list[str]:
    """Why others are not reached, or not let in."""
    return [f"{one.who}: {one.text}" for one in found]


def restarts(process: ProcessStatus | None) -> list[str]:
    """That the process with the connections has ended before, and why it did."""
    if process is None or not process.restarts:
        return []
    times = f"{process.restarts} time{'s' if process.restarts > 1 else ''}"
    return [f"its process was started again {times}; the last one {process.reason}"]


def disagreements(found: Sequence[Disagreement]) -> list[str]:
    """What is not the same on all members, so that their plans may differ."""
    return [
        f"{one.option} differs: {one.here} here, {'; '.join(map(_elsewhere, one.there))}; "
        "hosts agree only while their plans are the same"
        for one in found
    ]


def _elsewhere(there: OtherOptions) -> str:
    more = there.count - len(there.members)
    return f"{there.value} on {', '.join(there.members)}{f' and {more} more' if more else ''}"


def short(digest: str) -> str:
    """As much of a digest as a person compares."""
    return digest[:DIGEST_SHOWN] or "-"
