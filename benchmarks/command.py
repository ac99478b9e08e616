"""`hostcc bench NAME`: the command line of all measurements (docs/benchmarks.md)."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from benchmarks import options, registry
from benchmarks.context import Context, progress
from benchmarks.record import Record, encode
from hostcc.cli.common import PIPE_WIDTH, add_parser, console
from hostcc.errors import Exit, HostccError, InputError
from hostcc.foreign import say

EPILOG = """\
examples:
  hostcc bench mltcp --scenarios two-jobs --flows 8 --variants hostcc,cubic --out out/mltcp
  hostcc bench ack-cost --json

Those that need the kernel need root; what they measure: docs/benchmarks.md.
"""


def register(bench: argparse.ArgumentParser) -> None:
    """Add the benchmarks to the parser of `hostcc bench`; each sets `func`."""
    bench.epilog = EPILOG
    commands = bench.add_subparsers(dest="benchmark", required=True, metavar="NAME")
    listing = add_parser(commands, "list", "the benchmarks")
    listing.set_defaults(func=_list)
    for name, (_, about) in registry.BENCHMARKS.items():
        parser = add_parser(commands, name, about)
        _add_common(parser)
        registry.load(name).add_options(parser)
        parser.set_defaults(func=lambda args, name=name: _guarded(name, args))


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        type=options.whole("--runs", 1, options.MAX_RUNS),
        default=3,
        metavar="N",
        help="repetitions, for median and spread (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="keep the record, plots and finished cases here; the same command resumes after them",
    )
    parser.add_argument("--fresh", action="store_true", help="measure finished cases again")
    parser.add_argument(
        "--report", action="store_true", help="measure nothing: print the cases in --out DIR"
    )
    parser.add_argument("--json", action="store_true", help="print the record, no table")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line per finished case")


def _list(_: argparse.Namespace) -> int:
    for name, (_module, about) in registry.BENCHMARKS.items():
        say(f"{name:20} {about}")
    return Exit.OK


def _check(name: str, args: argparse.Namespace) -> None:
    """Before anything is measured.  Raises HostccError."""
    if args.report:
        if args.out is None:
            raise InputError("--report: expected --out DIR beside it, got none")
        if name in registry.KEEP_NOTHING:
            raise InputError("--report: this benchmark keeps no cases; run it without")
        if not args.out.is_dir():
            raise InputError(f"--out: expected the folder of an earlier run, got {args.out}")
    elif os.geteuid() and name not in registry.PURE:
        raise HostccError("benchmarks make network namespaces and load BPF: run them as root")
    if args.out:
        try:
            args.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HostccError(f"{args.out}: {error.strerror}") from error


def _run(name: str, args: argparse.Namespace) -> int:
    _check(name, args)
    benchmark = registry.load(name)
    with progress() as tell:
        context = Context(
            runs=args.runs,
            out=args.out,
            fresh=args.fresh,
            report_only=args.report,
            tell=tell,
            say=_say if args.verbose else lambda _: None,
        )
        record = benchmark.run(args, context)
    if args.report and not record.rows:
        raise InputError(
            f"{args.out}: expected finished cases of these options, found none: give those of the "
            "run, or leave --report out to measure"
        )
    _print(record, as_json=args.json)
    if args.out:
        written = _keep(name, benchmark, record, args)
        if written and not args.json:
            say("written: " + ", ".join(str(path) for path in written))
    return Exit.FAILED if record.failures else Exit.OK


def _keep(
    name: str, benchmark: registry.Benchmark, record: Record, args: argparse.Namespace
) -> list[Path]:
    """Write the record and its plots."""
    target: Path = args.out / f"{name}.json"
    if args.report and record.failures and target.exists():
        return []  # other options than those of the run whose record this is
    target.write_bytes(encode(record))
    return [target, *registry.draw(benchmark, record, args.out)]


def _print(record: Record, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(encode(record))
        return
    from benchmarks import show

    show.show(record, console(width=None if sys.stdout.isatty() else PIPE_WIDTH))


def _say(line: str) -> None:
    say(line, file=sys.stderr, flush=True)


def _guarded(name: str, args: argparse.Namespace) -> int:
    """SIGTERM and Ctrl-C remove what the benchmark has made; finished cases stay."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        return _run(name, args)
    except KeyboardInterrupt:
        _say(f"hostcc bench {name}: interrupted; finished cases are kept with --out")
        return 130
