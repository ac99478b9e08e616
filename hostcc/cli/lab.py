"""`hostcc lab`: run scenarios in a lab on this machine, list them, remove what is left."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hostcc.cli.common import PIPE_WIDTH, Subparsers, add_parser, console
from hostcc.cli.progress_bar import progress_bar
from hostcc.errors import InputError
from hostcc.foreign import say
from hostcc.lab.errors import LabError

if TYPE_CHECKING:
    from hostcc.lab.results import Results
    from hostcc.lab.scenario import Scenario
    from hostcc.lab.variants import Variant


PLOTS = (".png", ".svg")
EPILOG = """\
examples:
  hostcc lab run two-jobs --compare hostcc,cubic --out out/two
  hostcc lab run my.toml --flows 8 --repeat 3
  hostcc lab down

A scenario is a TOML file (docs/lab.md).  Needs root; no packet leaves the machine.
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add `lab` and its commands to the command line; each sets `func`."""
    lab = add_parser(subparsers, "lab", "jobs on network namespaces of this machine")
    lab.epilog = EPILOG
    commands = lab.add_subparsers(dest="lab_command", required=True, metavar="COMMAND")
    running = add_parser(commands, "run", "run a scenario and compare variants")
    running.epilog = EPILOG
    _add_run(running)
    listing = add_parser(commands, "list", "the scenarios that come with hostcc")
    listing.set_defaults(func=lambda args: guarded(_list, args))
    down = add_parser(commands, "down", "remove what killed labs have left behind")
    down.add_argument("--all", action="store_true", help="labs that still run, too")
    down.set_defaults(func=lambda args: guarded(_down, args))


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenario", metavar="SCENARIO", help="a .toml file or the name of a built-in scenario"
    )
    parser.add_argument(
        "--compare",
        metavar="NAME,NAME,...",
        default="",
        help="variants: hostcc, mltcp-reno, cubic, reno, bbr, ...",
    )
    parser.add_argument(
        "--cc",
        metavar="NAME",
        action="append",
        default=[],
        help="also compare a registered congestion control, set per socket",
    )
    parser.add_argument("--iterations", type=int, metavar="N", help="of every job")
    parser.add_argument(
        "--alone",
        type=int,
        metavar="N",
        help="iterations of each job alone; 0: use the computed ideal",
    )
    parser.add_argument(
        "--repeat", type=int, metavar="N", default=1, help="runs of each variant (default: 1)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="keep results.json, bandwidth series and plots here"
    )
    parser.add_argument("--flows", type=int, metavar="N", help="connections of every job")
    parser.add_argument("--rate", type=float, metavar="MBIT", help="bottleneck, Mbit/s")
    parser.add_argument("--buffer", type=int, metavar="PACKETS", help="bottleneck's queue")
    parser.add_argument("--rtt-us", type=int, metavar="US", help="base round-trip time")
    parser.add_argument("--mtu", type=int, metavar="BYTES", help="of every link")
    parser.add_argument("--ecn", type=int, metavar="PACKETS", help="mark CE above this queue")
    parser.add_argument("--jitter", type=float, metavar="PERCENT", help="of compute times")
    parser.add_argument(
        "--no-flops", dest="declare_flops", action="store_const", const=False,
        help="do not tell agents the jobs' work, so that they assume it",
    )  # fmt: skip
    parser.add_argument(
        "--live",
        action="store_true",
        help="draw the jobs' bandwidth on the terminal while they run (not elsewhere)",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw what --live shows at the end: .png, .svg"
    )
    parser.add_argument("--json", action="store_true", help="print results.json, no table")
    parser.set_defaults(func=lambda args: guarded(_run, args))


def chosen_variants(scenario: Scenario, args: argparse.Namespace) -> tuple[Variant, ...]:
    """What to compare: --compare and --cc, or the scenario's own list."""
    from hostcc.lab.variants import by_socket, resolve

    names = [name for name in args.compare.split(",") if name]
    if not names and not args.cc:
        names = list(scenario.compare)
    chosen = (*resolve(names, scenario), *(by_socket(name) for name in args.cc))
    for place, variant in enumerate(chosen):
        # Files and rows are by name.
        if variant.name in [one.name for one in chosen[:place]]:
            raise InputError(f"--compare, --cc: expected each variant once, got {variant.name}")
    return chosen


def _check_drawing(args: argparse.Namespace, scenario: Scenario) -> None:
    """Refuse what --live and --plot cannot draw."""
    if (args.live or args.plot) and not scenario.job:
        raise InputError("--live, --plot: expected a scenario with a [[job]], got none")
    if args.plot is not None and args.plot.suffix.lower() not in PLOTS:
        kinds = " or ".join(PLOTS)
        raise InputError(f"--plot: expected a name that ends in {kinds}, got {args.plot}")
    if args.plot is not None and not (args.plot.parent.is_dir() or args.plot.parent == args.out):
        raise InputError(f"--plot: expected a file in a folder that is there, got {args.plot}")


def _run(args: argparse.Namespace) -> int:
    from hostcc.cli.lab_live import LiveDrawing
    from hostcc.lab import override, report, results, runner, scenario

    path = scenario.find(args.scenario)
    wanted = override.overridden(scenario.load(path), vars(args))
    _check_drawing(args, wanted)
    if args.repeat < 1:
        raise InputError("--repeat: expected a number of at least 1")
    variants = chosen_variants(wanted, args)
    if os.geteuid():
        raise LabError("the lab makes network namespaces and cgroups: run it as root")
    if args.out:
        try:
            args.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(f"{args.out}: {error.strerror}") from error
    live = LiveDrawing() if args.live or args.plot else None
    watch = live.watch if live is not None else None
    comparison = runner.Comparison(path.stem, wanted, variants, args.repeat, args.out, live=watch)
    with live.shown() if live is not None and args.live else progress_bar() as tell:
        measured = runner.run(comparison, tell)
    if args.json:
        sys.stdout.buffer.write(results.encode(measured))
    else:
        report.show(measured, console(width=None if sys.stdout.isatty() else PIPE_WIDTH))
    if args.out:
        _keep(measured, args.out, quiet=args.json)
    if live is not None and args.plot:
        from hostcc.lab import live_plot

        drawn = live_plot.draw(live.runs, args.plot)
        say(f"drawn: {drawn}", file=sys.stderr if args.json else None)
    return 0


def _keep(measured: Results, out: Path, quiet: bool) -> None:
    """Write results.json and the plots."""
    from hostcc.lab import plots, results

    target = out / "results.json"
    target.write_bytes(results.encode(measured))
    written = [target, *plots.draw(measured, out)]
    if not quiet:
        say("written: " + ", ".join(str(path) for path in written))


def _list(_args: argparse.Namespace) -> int:
    from hostcc.lab import scenario

    for name in scenario.builtins():
        say(f"{name:24} {scenario.load(scenario.find(name)).title}")
    return 0


def _down(args: argparse.Namespace) -> int:
    from hostcc.lab.down import down

    removed = down(running_too=args.all)
    say(f"removed: {', '.join(removed)}" if removed else "nothing to remove")
    return 0


def guarded(function: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Call a command so that SIGTERM and Ctrl-C remove what it has made."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        return function(args)
    except KeyboardInterrupt:
        say("hostcc lab: interrupted; everything is removed", file=sys.stderr)
        return 130
