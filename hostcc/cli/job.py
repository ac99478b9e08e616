"""`hostcc job JOB --weight W --flops F`: other parameters for a job that runs."""

from __future__ import annotations

import argparse

from hostcc.answers.host import JobChange
from hostcc.cli.common import Subparsers, add_client_options, add_parser, show, size
from hostcc.cli.run import parse_bytes, parse_flops, parse_weight
from hostcc.errors import InputError
from hostcc.foreign import say
from hostcc.limits import JOB_NAME_WORDS, WEIGHT_MAX, WEIGHT_MIN, is_job_name

EPILOG = """\
Connections follow at once, and the next agent keeps it for as long as the job runs.
Users may change jobs of their own, named with or without uidN:, within the bounds of
[users] in the agent's configuration; root all jobs, those that were found, too.
Without an option: what the job has.
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "job", "give a job that runs another weight, or other figures")
    parser.epilog = EPILOG
    parser.add_argument("job", metavar="JOB", help="its name, as hostcc jobs shows it")
    parser.add_argument(
        "--weight",
        metavar="W",
        help=f"its share against others, {WEIGHT_MIN:g} to {WEIGHT_MAX:g}",
    )
    parser.add_argument(
        "--bytes-per-iteration",
        metavar="N",
        help="bytes that this host sends in one iteration, like 250M",
    )
    parser.add_argument(
        "--flops", metavar="N", help="FLOP of one iteration on this host's GPUs, like 2.5e15"
    )
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Ask for it."""
    if not is_job_name(args.job):
        raise InputError(f'"{args.job[:80]}": expected {JOB_NAME_WORDS}')
    return show(
        args,
        "job",
        JobChange,
        render,
        job=args.job,
        weight=parse_weight(args.weight),
        bytes_per_iteration=parse_bytes(args.bytes_per_iteration),
        flops=parse_flops(args.flops),
    )


def render(answer: JobChange) -> None:
    """What it has now, and had."""
    whose = "root's" if answer.uid is None else f"of uid {answer.uid}"
    say(f"{answer.job}, {whose}")
    rows = (
        ("weight", f"{answer.before.weight:g}", f"{answer.weight:g}"),
        (
            "bytes per iteration",
            _or(answer.before.bytes_per_iteration, "learned"),
            _or(answer.bytes_per_iteration, "learned"),
        ),
        ("flops", _flops(answer.before.flops), _flops(answer.flops)),
    )
    for what, before, now in rows:
        say(f"  {what}: {now}" if before == now else f"  {what}: {before} -> {now}")


def _or(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else size(value)


def _flops(value: float | None) -> str:
    return "measured" if value is None else f"{value:g}"
