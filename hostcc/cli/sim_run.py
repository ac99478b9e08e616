"""`hostcc sim run`: days of a training cluster under each way of scheduling."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostcc.cli.common import Subparsers, add_parser, emit, number_of, print_json, table
from hostcc.cli.progress_bar import progress_bar
from hostcc.errors import Exit, InputError
from hostcc.foreign import say

if TYPE_CHECKING:
    from hostcc.sim.cluster_run import ClusterResult
    from hostcc.sim.fabrics import Topology
    from hostcc.sim.released import Trace

GBIT = 1e9 / 8
RELEASED = "released"
DEFAULT_SCHEDULERS = "alone,ecmp,crux-full,hostcc"
COLUMNS = [
    ("Scheduler", "left"), ("Utilisation", "right"), ("Of alone", "right"),
    ("JCT ratio", "right"), ("p99", "right"), ("Plans", "right"), ("Moves", "right"),
    ("Seconds", "right"),
]  # fmt: skip
EPILOG = """\
examples:
  hostcc sim run traces/lingjun --days 2 --out out/lingjun
  hostcc sim run traces/lingjun --schedulers ecmp,hostcc --fabric crux-clos --json

Schedulers: docs/simulator.md. --out keeps each one that is finished, and goes on from there.
"""


def register(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Add `run` to the commands of `sim`; it sets `func`."""
    parser = add_parser(commands, "run", "a cluster over days under each way of scheduling")
    parser.epilog = EPILOG
    parser.add_argument("folder", type=Path, metavar="DIR", help="where the trace's files are")
    texts = {
        "--schedulers": (DEFAULT_SCHEDULERS, "NAMES", "who schedules, with commas between"),
        "--days": ("2", "N", "time that is replayed: the days in which jobs hold most GPUs"),
        "--levels": ("8", "N", "priority levels of the network"),
        "--fabric": (RELEASED, "NAME", "the trace's own, or crux-clos, crux-double"),
        "--uplink": ("800", "GBIT", "rate of a ToR's uplink, Gbit/s"),
        "--core": ("800", "GBIT", "rate of a link to the core, Gbit/s"),
    }
    for option, (default, kind, what) in texts.items():
        parser.add_argument(
            option, default=default, metavar=kind, help=f"{what} (default: %(default)s)"
        )
    parser.add_argument(
        "--workloads", type=Path, metavar="FILE", help="instead of the table that is shipped"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep finished runs here")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/simulator.md)")
    parser.set_defaults(func=_run)


def _run(args: argparse.Namespace) -> int:
    """Replay a trace."""
    from hostcc.sim import cluster_document, cluster_run, released, workload_table

    names = _names(args.schedulers)
    minutes = round(number_of(args.days, "--days", "days", 0.01, 366) * cluster_run.DAY_MINUTES)
    levels = int(number_of(args.levels, "--levels", "levels", 1, cluster_run.MOST_LEVELS))
    workloads = workload_table.read(args.workloads or workload_table.DEFAULT)
    trace = released.read_trace(args.folder)
    first = cluster_run.busiest(trace, minutes)
    given = cluster_run.cluster(trace, _topology(args, trace), workloads, first, minutes)
    options = {"levels": levels, "first_minute": first, "minutes": minutes, "placement": "trace"}
    head = cluster_document.header(trace, given, workloads, options)
    results = []
    with progress_bar() as tell:
        for name in names:
            found = cluster_document.kept(args.out, head, name) if args.out else None
            if found is None:
                found = cluster_run.run(given, name, levels, tell)
                if args.out:
                    cluster_document.keep(args.out, head, found)
            results.append(found)
    if args.json:
        print_json(cluster_document.document(head, results))
        return Exit.OK
    emit("", table(COLUMNS, map(_row, results)))
    if args.out:
        say(f"kept in {args.out}: a JSON file and a CSV file of jobs for each scheduler")
    return Exit.OK


def _names(text: str) -> list[str]:
    from hostcc.sim import cluster_schedulers

    known = cluster_schedulers.SCHEDULERS
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            raise InputError(f"--schedulers: expected {', '.join(known)}, got {name!r:.40}")
    return names


def _topology(args: argparse.Namespace, trace: Trace) -> Topology:
    from hostcc.sim import fabrics

    uplink, core = (
        number_of(getattr(args, name), f"--{name}", "Gbit/s", 1e-3, 1e6) * GBIT
        for name in ("uplink", "core")
    )
    if args.fabric == RELEASED:
        pods, tors = [host.pod for host in trace.hosts], [host.tor for host in trace.hosts]
        return fabrics.released(pods, tors, uplink, core)
    if args.fabric == "crux-clos":
        return fabrics.crux_clos(uplink, hosts=max(fabrics.CRUX_HOSTS, len(trace.hosts)))
    if args.fabric == "crux-double":
        return fabrics.crux_double(uplink, core, hosts=max(fabrics.CRUX_HOSTS, len(trace.hosts)))
    raise InputError(
        f"--fabric: expected {RELEASED}, crux-clos or crux-double, got {args.fabric!r:.40}"
    )


def _row(result: ClusterResult) -> tuple[str, ...]:
    figures: Any = result.figures
    ratio = figures["jct_ratio"] or {"mean": float("nan"), "p99": float("nan")}
    return (
        result.scheduler,
        f"{100 * figures['utilisation']:.2f} %",
        f"{100 * figures['utilisation_alone']:.2f} %",
        f"{ratio['mean']:.4f}",
        f"{ratio['p99']:.3f}",
        str(figures["plans"]),
        str(figures["moves"]),
        f"{sum(result.seconds.values()):.1f}",
    )
