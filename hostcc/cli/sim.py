"""`hostcc sim describe` and `generate`: what a trace of a training cluster has; traces like it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from hostcc.cli import sim_run
from hostcc.cli.common import Subparsers, add_parser, emit, number_of, print_json, table
from hostcc.cli.progress_bar import progress_bar
from hostcc.errors import Exit, HostccError, InputError
from hostcc.foreign import say

if TYPE_CHECKING:
    from hostcc.sim.trace_description import Description, Figure

GBIT = 1e9 / 8
DEFAULT_GBIT = 200.0
COLUMNS = [("", "left"), ("This trace", "right"), ("Lingjun", "right")]
EPILOG = """\
examples:
  hostcc sim describe traces/lingjun
  hostcc sim describe traces/own --uplink 800 --out out/own --json
  hostcc sim generate traces/made --seed 7
  hostcc sim run traces/made --days 2 --out out/made

DIR has job.csv, worker.csv and topo.csv as the released Lingjun trace has them
(docs/internals/simulator.md).
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add `sim` and its commands to the command line; each sets `func`."""
    parser = add_parser(subparsers, "sim", "traces of training clusters")
    parser.epilog = EPILOG
    commands = parser.add_subparsers(dest="sim_command", required=True, metavar="COMMAND")
    describing = add_parser(commands, "describe", "counts, sizes, durations and risks of a trace")
    describing.epilog = EPILOG
    describing.add_argument("folder", type=Path, metavar="DIR", help="where the trace's files are")
    ends = {"--uplink": "a ToR and its pod's switch", "--core": "a pod and the core"}
    for option, what in ends.items():
        describing.add_argument(
            option,
            default=f"{DEFAULT_GBIT:g}",
            metavar="GBIT",
            help=f"rate of the link between {what}, Gbit/s (default: %(default)s)",
        )
    describing.add_argument(
        "--fabric",
        type=Path,
        metavar="FILE",
        help="a fabric in TOML instead (docs/internals/simulator.md)",
    )
    describing.add_argument(
        "--out", type=Path, metavar="DIR", help="keep description.json and plots here"
    )
    describing.add_argument(
        "--json", action="store_true", help="print JSON (docs/internals/simulator.md)"
    )
    describing.set_defaults(func=_describe)
    generating = add_parser(commands, "generate", "a trace like the Lingjun trace")
    generating.epilog = EPILOG
    generating.add_argument("folder", type=Path, metavar="OUT", help="where its files go")
    generating.add_argument(
        "--seed", default="0", metavar="S", help="whole number; another makes another trace"
    )
    generating.set_defaults(func=_generate)
    sim_run.register(commands)


def _generate(args: argparse.Namespace) -> int:
    """Write a trace."""
    from hostcc.sim import trace_files

    if not (args.seed.isascii() and args.seed.isdigit() and len(args.seed) <= 18):
        raise InputError(f'--seed: expected a whole number, got "{args.seed[:40]}"')
    there = [name for name in trace_files.FILES if (args.folder / f"{name}.csv").exists()]
    if there:
        raise InputError(f"{args.folder}: expected no {there[0]}.csv there, to write one")
    with progress_bar() as tell:
        written = trace_files.write(trace_files.generate(int(args.seed), tell), args.folder)
    say("written: " + ", ".join(str(path) for path in written))
    return Exit.OK


def _describe(args: argparse.Namespace) -> int:
    """Describe a trace."""
    from hostcc.sim import fabric_file, trace_description

    uplink, core = (
        number_of(getattr(args, name), f"--{name}", "Gbit/s", 1e-3, 1e6) * GBIT
        for name in ("uplink", "core")
    )
    fabric = None
    if args.fabric is not None:
        if {args.uplink, args.core} != {f"{DEFAULT_GBIT:g}"}:
            raise InputError("--fabric: expected neither --uplink nor --core beside it")
        fabric = fabric_file.read(args.fabric)
    with progress_bar() as tell:
        found = trace_description.describe(args.folder, uplink, core, tell, fabric)
        written = _keep(found, args.out) if args.out else []
    if args.json:
        print_json(found.answer())
        return Exit.OK
    for name, figures in found.groups.items():
        emit(f"\n{name}", table(COLUMNS, map(_row, figures)))
    if written:
        say("written: " + ", ".join(str(path) for path in written))
    return Exit.OK


def _row(one: Figure) -> tuple[str, str, str]:
    published = "" if one.published is None else _number(one.published, one.share)
    return one.name, _number(one.value, one.share), published


def _number(value: float, share: bool) -> str:
    if share:
        return f"{100 * value:.1f} %"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"


def _keep(found: Description, out: Path) -> list[Path]:
    """Write description.json and the plots; raises HostccError."""
    from hostcc.sim import trace_plots

    target = out / "description.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
        plots = trace_plots.draw(found, out)
        target.write_text(json.dumps(found.answer(), indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise HostccError(f"{error.filename or out}: {error.strerror}") from error
    return [target, *plots]
