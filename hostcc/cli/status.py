"""`hostcc status`: what the agent is doing, and how each job fares."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from hostcc.cli import rdma, routed
from hostcc.cli.common import (
    Cut,
    Subparsers,
    add_client_options,
    add_parser,
    console,
    emit,
    print_json,
    seconds,
    size,
    table,
    understood,
)
from hostcc.cli.peers import short
from hostcc.cli.planned import heading as plan_heading
from hostcc.cli.planned import here
from hostcc.client import ask
from hostcc.errors import Exit, InputError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

COLUMNS = [
    ("Job", "left"),
    ("Control", "left"),
    ("Stance", "left"),
    ("Weight", "right"),
    ("Procs", "right"),
    ("Flows", "right"),
    ("Iterations", "right"),
    ("Period", "right"),
    ("p99", "right"),
    ("Comm.", "right"),
    ("Per iter.", "right"),
    ("Sent", "right"),
]

MISSING_SHOWN = 8
"""Members that are waited for."""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "status", "what the agent is doing, and how each job fares")
    add_client_options(parser)
    parser.add_argument(
        "--watch",
        nargs="?",
        const=1.0,
        type=float,
        metavar="SECONDS",
        help="again and again until interrupted (default: every second)",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print it once, or keep it on the screen."""
    if args.watch is not None and not 0.2 <= args.watch <= 3600:
        raise InputError(f"--watch: expected 0.2 to 3600 seconds, got {args.watch:g}")
    answer = ask(args.socket, "status")
    if args.watch is None:
        with understood(args.socket):
            print_json(answer) if args.json else emit(screen(answer))
        return Exit.OK
    try:
        with understood(args.socket):
            return watch_json(args, answer) if args.json else watch(args, answer)
    except KeyboardInterrupt:
        return Exit.OK


def watch_json(args: argparse.Namespace, answer: dict[str, Any]) -> int:
    """One JSON document after the other."""
    while True:
        print_json(answer)
        time.sleep(args.watch)
        answer = ask(args.socket, "status")


def watch(args: argparse.Namespace, answer: dict[str, Any]) -> int:
    """Keep the screen up to date."""
    from rich.live import Live

    if not sys.stdout.isatty():
        while True:
            emit(screen(answer))
            time.sleep(args.watch)
            answer = ask(args.socket, "status")
    with Live(Cut(screen(answer)), console=console(), auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(args.watch)
            live.update(Cut(screen(ask(args.socket, "status"))), refresh=True)


def screen(answer: dict[str, Any]) -> Group:
    """The agent in a line or two, its jobs in a table, what it noticed."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [Text(line) for line in heading(answer["agent"])]
    if answer["jobs"]:
        parts += [Text(""), table(COLUMNS, map(job_row, answer["jobs"]))]
    elif answer["agent"]["state"] == "active":
        parts.append(Text("no jobs; start one: hostcc run --job NAME -- COMMAND"))
    parts += gossip(answer.get("gossip"))
    parts += [Text(line) for line in plan(answer.get("plan"))]
    parts += [Text(line) for line in routed.lines(answer.get("routing"))]
    parts += [Text(line) for line in rdma.lines(answer.get("parts", []))]
    parts += [Text(line) for line in troubles(answer.get("parts", []))]
    parts += [Text(f"note: {note['target']}: {note['text']}") for note in answer["notes"]]
    return Group(*parts)


def heading(agent: dict[str, Any]) -> list[str]:
    """Who the agent is and what it is doing."""
    acting = agent["state"] == "active"
    doing = f"mode {agent['mode']}" if acting else f"observing only: {agent['reason']}"
    who = f"agent {agent['instance']} (hostcc {agent['version']}, pid {agent['pid']})"
    used = f"CPU {agent['cpu_s']:.2f} s, memory {size(agent['resident_bytes'])}"
    return [
        f"{who}, up {duration(agent['uptime_s'])}: {doing}",
        f"host's default {agent['default_congestion_control']}, {used}",
    ]


def troubles(parts: list[dict[str, Any]]) -> list[str]:
    """What does not run as it could, and why."""
    return [
        f"{part['name']}{' failed' if part['state'] == 'failed' else ''}: {part['reason']}"
        for part in parts
        if part["reason"] and part["state"] != "off"
    ]


def gossip(block: dict[str, Any] | None) -> list[Text]:
    """Who else there is, what they agree on, and in red that anybody may say anything."""
    from rich.text import Text

    if block is None:
        return []
    counts = [f"{count} {state}" for state, count in sorted(block["members"].items())]
    line = f"gossip as {block['name']}: {', '.join(counts) or 'nobody else'}; "
    if block["active"]:
        agreed = "agreed" if block["agreed"] else "not agreed"
        line += f"follows view {short(block['active'])}, {agreed}"
    else:
        line += "follows no view yet"
    if block["held"] != block["active"]:
        line += f"; holds view {short(block['held'])}"
    if block["missing"]:
        more = ", ..." if len(block["missing"]) > MISSING_SHOWN else ""
        line += f"; waits for {', '.join(block['missing'][:MISSING_SHOWN])}{more}"
    lines = [Text(line)]
    if block["insecure"]:
        words = f"INSECURE: no keys, whoever reaches {block['listen']} may say anything"
        lines.append(Text(f"gossip is {words}", style="bold red"))
    lines += [Text(f"gossip: job {job}: {why}") for job, why in block["unpublished"].items()]
    return lines


def plan(block: dict[str, Any] | None) -> list[str]:
    """Which plan is followed, and what it says of the jobs here."""
    return [] if block is None else [*plan_heading(block), *here(block["jobs"])]


def job_row(job: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    weight = job["weight"] if job["static_weight"] is None else job["static_weight"]
    stance = {"off": "off", "static": "static"}.get(job["mode"], job["stance"])
    if job.get("profiling"):
        stance = "first"
    return (
        job["name"],
        job["congestion_control"] or "default",
        stance,
        f"{weight:g}",
        str(job["processes"]),
        str(job["flows"]),
        str(job["iterations"]),
        seconds(job["period_s"]),
        seconds(job["recent"]["p99_period_s"]),
        seconds(job["communication_s"]),
        size(job["bytes_per_iteration"]),
        size(job["bytes_acked"]),
    )


def duration(value: float) -> str:
    """A longer time in words: "3 h 12 min"."""
    minutes, hours, days = int(value // 60), int(value // 3600), int(value // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {int(value % 60)} s" if minutes else f"{int(value)} s"
