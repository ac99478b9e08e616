"""`hostcc unfair off | mltcp | static JOB=WEIGHT ...`: how jobs share, from now on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hostcc.answers.host import Sharing
from hostcc.cli.common import Subparsers, add_client_options, add_parser, number_of, show
from hostcc.errors import InputError
from hostcc.foreign import say
from hostcc.limits import JOB_NAME_WORDS, MAX_JOBS, WEIGHT_MAX, WEIGHT_MIN, is_job_name

EPILOG = """\
off     plain fair sharing: the host's own congestion control
mltcp   F grows with the share of the iteration's bytes that were sent
static  F is a constant per job, its weight unless JOB=WEIGHT says otherwise

Live connections follow at once.  Lasts until the agent stops; off --hold until the
next `hostcc unfair`, whatever is restarted or booted.
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "unfair", "choose how jobs share: off, mltcp or static weights")
    parser.epilog = EPILOG
    parser.add_argument("mode", choices=["off", "mltcp", "static"], help="see below")
    parser.add_argument("weights", nargs="*", default=[], metavar="JOB=WEIGHT", help="with static")
    parser.add_argument(
        "--hold", action="store_true", help="with off: also after restarts and boots"
    )
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Toggle."""
    if args.weights and args.mode != "static":
        raise InputError(f"{args.weights[0]}: expected weights only with static")
    if args.hold and args.mode != "off":
        raise InputError(f"--hold: expected mode off, got {args.mode}")
    weights = parse_weights(args.weights)
    return show(
        args, "unfair", Sharing, render, mode=args.mode, weights=weights, hold=args.hold or None
    )


def render(answer: Sharing) -> None:
    """What changed."""
    jobs = answer.jobs
    shown = ", ".join(jobs[:10]) + (" ..." if len(jobs) > 10 else "")
    say(f"{answer.before} -> {answer.mode}: {shown or 'no jobs yet'}")
    for name in answer.unknown:
        say(f"hostcc unfair: {name} is no job here yet; its weight is kept", file=sys.stderr)


def parse_weights(words: Sequence[str]) -> dict[str, float]:
    """JOB=WEIGHT ...  Raises InputError."""
    weights: dict[str, float] = {}
    for word in words:
        name, _, text = word.rpartition("=")
        if not is_job_name(name):
            raise InputError(f'"{word[:80]}": expected JOB=WEIGHT, JOB {JOB_NAME_WORDS}')
        weight = number_of(text, name, "a weight", WEIGHT_MIN, WEIGHT_MAX)
        if name in weights:
            raise InputError(f"{name}: expected one weight for each job, got two")
        weights[name] = weight
    if len(weights) >= MAX_JOBS:
        raise InputError(f"expected at most {MAX_JOBS - 1} weights, got {len(weights)}")
    return weights
