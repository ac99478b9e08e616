"""`hostcc status`: what the agent is doing, and how each job fares."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hostcc.answers.gossip import Gossip
from hostcc.answers.parts import Part, part_of
from hostcc.answers.plan_status import PlanStatus
from hostcc.answers.status import AgentStatus, JobStatus, Recent, Status
from hostcc.cli import gates_status, rdma_status, routed
from hostcc.cli.advice import advice
from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    duration,
    emit,
    print_json,
    read,
    seconds,
    size,
    table,
)
from hostcc.cli.flows import number
from hostcc.cli.peers import disagreements, restarts, short
from hostcc.cli.peers import troubles as troubles_of
from hostcc.cli.plan_summary import cluster, here
from hostcc.cli.plan_summary import heading as plan_heading
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
    ("Alone", "right"),
    ("Gain", "right"),
]

ADVISED = {"paths-off"}
"""Advice among the alarms: what is on and cannot have its effect.  `hostcc advise` has more."""
MISSING_SHOWN = 8
NAMES_SHOWN = 8
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
        print_json(answer) if args.json else emit(screen(read(args.socket, answer, Status)))
        return Exit.OK
    from hostcc.cli import status_screen

    try:
        return status_screen.run(args, answer)
    except KeyboardInterrupt:
        return Exit.OK


def screen(answer: Status) -> Group:
    """The heading, a table of jobs, and the other sections."""
    from rich.console import Group
    from rich.text import Text

    alarms, summary, details = sections(answer)
    parts: list[Any] = [Text(line) for line in heading(answer.agent)]
    if answer.jobs:
        parts += [Text(""), table(COLUMNS, map(job_row, answer.jobs))]
    return Group(*parts, *summary, *details, *alarms)


def sections(answer: Status) -> tuple[list[Text], list[Text], list[Text]]:
    """Alarms, summary and details: all beside the heading and the table of jobs."""
    from rich.text import Text

    others = gossip(answer.gossip)
    planned = plan(answer.plan)
    parts = [part_of(row) for row in answer.parts]
    alarms = [*others[1:], *(Text(line) for line in troubles(parts))]
    alarms += [
        Text(f"{one.found}: {one.do} ({one.id})") for one in advice(answer) if one.id in ADVISED
    ]
    alarms += [Text(f"note: {note.target}: {note.text}") for note in answer.notes]
    summary = others[:1]
    if not answer.jobs and answer.agent.state == "active":
        summary.append(Text("no jobs; start one: hostcc run --job NAME -- COMMAND"))
    details = [
        *plain(answer.jobs),
        *planned,
        *gates_status.lines(parts),
        *routed.lines(answer.routing),
        *rdma_status.lines(parts),
    ]
    return alarms, summary, [Text(line) for line in details]


def heading(agent: AgentStatus) -> list[str]:
    """Who the agent is and what it is doing."""
    acting = agent.state == "active"
    doing = f"mode {agent.mode}" if acting else f"observing only: {agent.reason}"
    if agent.held is not None and agent.held != agent.reason:
        doing += f", {agent.held}"
    who = f"agent {agent.instance} (hostcc {agent.version}, pid {agent.pid})"
    used = f"CPU {agent.cpu_s:.2f} s, memory {size(agent.resident_bytes)}"
    loop = agent.loop
    if loop.longest_stall_s is not None:
        used += f", longest stall {seconds(loop.longest_stall_s)}"
    return [
        f"{who}, up {duration(agent.uptime_s)}: {doing}",
        f"host's default {agent.default_congestion_control}, {used}",
        *(f"FAILING: {piece}: {why}" for piece, why in loop.failing.items()),
    ]


def troubles(parts: Sequence[Part]) -> list[str]:
    """What does not run as it could, and why."""
    return [
        f"{part.name}{' failed' if part.state == 'failed' else ''}: {part.reason}"
        for part in parts
        if part.reason and part.state != "off"
    ]


def gossip(block: Gossip | None) -> list[Text]:
    """Who else there is, what they agree on, and in red that anybody may say anything."""
    from rich.text import Text

    if block is None:
        return []
    counts = [f"{count} {state}" for state, count in sorted(block.members.items())]
    line = f"gossip as {block.name}: {', '.join(counts) or 'nobody else'}; "
    alone = not (block.members.get("alive") or block.members.get("suspect"))
    if block.active:
        agreed = "agreed" if block.agreed else "not agreed"
        if alone:
            agreed = "agreed with nobody"
        line += f"follows view {short(block.active)}, {agreed}"
    else:
        line += "follows no view yet"
    if block.held != block.active:
        line += f"; holds view {short(block.held)}"
    if block.missing:
        more = ", ..." if len(block.missing) > MISSING_SHOWN else ""
        line += f"; waits for {', '.join(block.missing[:MISSING_SHOWN])}{more}"
    lines = [Text(line)]
    if block.insecure:
        words = f"INSECURE: no keys, whoever reaches {block.listen} may say anything"
        lines.append(Text(f"gossip is {words}", style="bold red"))
    lines += [Text(f"gossip: {line}") for line in restarts(block.process)]
    lines += [Text(f"gossip: {line}") for line in troubles_of(block.troubles)]
    lines += [Text(f"gossip: job {job}: {why}") for job, why in block.unpublished.items()]
    lines += [Text(f"gossip: {line}") for line in disagreements(block.disagreements)]
    return lines


def plan(block: PlanStatus | None) -> list[str]:
    """Which plan is followed, and what it says of the jobs here."""
    if block is None:
        return []
    return [*plan_heading(block), *cluster(block.cluster), *here(block.jobs)]


def plain(jobs: Sequence[JobStatus]) -> list[str]:
    """Which jobs run the plain algorithm, a line for each reason."""
    why: dict[str, list[str]] = {}
    for job in jobs:
        if job.mode != "off" and job.plain_reason:
            why.setdefault(job.plain_reason, []).append(job.name)
    return [f"plain, {reason}: {some(names)}" for reason, names in sorted(why.items())]


def some(names: list[str]) -> str:
    """The first ones, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def job_row(job: JobStatus) -> tuple[str, ...]:
    """One line of the table."""
    weight = job.weight if job.static_weight is None else job.static_weight
    stance = {"off": "off", "static": "static"}.get(job.mode, job.stance)
    if stance == "scaled" and job.plain_reason:
        stance = job.direction if job.direction != "one-way" else "plain"
    if job.profiling:
        stance = "first"
    return (
        job.name,
        job.congestion_control or "default",
        stance,
        f"{weight:g}",
        str(job.processes),
        number(job.flows),
        iterations(job),
        seconds(job.recent.mean_period_s),
        tail(job.recent),
        seconds(job.communication_s),
        size(job.bytes_per_iteration),
        size(job.bytes_acked),
        seconds(job.alone_s) if job.alone_s else "",
        gain(job),
    )


def gain(job: JobStatus) -> str:
    """Against mode off as a factor, against the time alone as a percentage of that speed."""
    if job.gain is None:
        return ""
    return f"{job.gain:.2f}x" if job.gain_over == "off" else f"{job.gain:.0%}"


def iterations(job: JobStatus) -> str:
    """By what it sent, where its bytes of an iteration are known: ends can be missed."""
    by_bytes = job.iterations_by_bytes
    return str(job.iterations) if by_bytes is None else f"~{by_bytes}"


def tail(recent: Recent) -> str:
    """The 99th percentile, and of how many iterations."""
    p99 = recent.p99_period_s
    return "-" if p99 is None else f"{seconds(p99)} of {recent.iterations}"
