"""`hostcc sim run`: days of a training cluster under each way of scheduling."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostcc.cli.common import Subparsers, add_parser, emit, number_of, print_json, table
from hostcc.cli.progress_bar import progress_bar
from hostcc.errors import Exit, InputError
from hostcc.foreign import say

if TYPE_CHECKING:
    from hostcc.sim.cluster_jobs import Setting
    from hostcc.sim.cluster_run import Cluster, ClusterResult, How
    from hostcc.sim.fabrics import Topology
    from hostcc.sim.released import Trace

GBIT = 1e9 / 8
RELEASED = "released"
MOST_WORKERS = 64
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

Schedulers: docs/internals/simulator.md. --out keeps each one that is finished, and goes on from
there.
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
        "--placement": ("trace", "NAME", "trace, or none, pod, packed, hived, muri"),
        "--seed": ("0", "S", "of placements and hashes"),
        "--queue-pairs": ("1", "N", "queue pairs that a connection is spread over"),
        "--scale": ("1", "X", "factor of the bytes that jobs send"),
        "--lag": ("0", "S", "seconds from a change of who runs to the plan for it"),
        "--profiling": ("0", "S", "seconds in which a new job goes first, in no plan"),
        "--error": ("0", "X", "fraction by which measured numbers may be off"),
        "--failures": ("", "LIST", "SECONDS[-SECONDS]:CLASS:A-B,... that are down"),
        "--workers": ("2", "N", "processes; the results are the same"),
    }
    for option, (default, kind, what) in texts.items():
        shown = " (default: %(default)s)" if default else ""
        parser.add_argument(option, default=default, metavar=kind, help=f"{what}{shown}")
    parser.add_argument(
        "--workloads", type=Path, metavar="FILE", help="instead of the table that is shipped"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep finished runs and plots here")
    parser.add_argument(
        "--json", action="store_true", help="print JSON (docs/internals/simulator.md)"
    )
    parser.set_defaults(func=_run)


def _run(args: argparse.Namespace) -> int:
    """Replay a trace."""
    from hostcc.sim import cluster_document, cluster_plots, cluster_run, released, workload_table

    names = _names(args.schedulers)
    workers = _whole(args.workers, "--workers", "processes", 1, MOST_WORKERS)
    setting, how = _setting(args), _how(args)
    minutes = round(number_of(args.days, "--days", "days", 0.01, 366) * cluster_run.DAY_MINUTES)
    workloads = workload_table.read(args.workloads or workload_table.DEFAULT)
    trace = released.read_trace(args.folder)
    first = cluster_run.busiest(trace, minutes)
    topology = _topology(args, trace)
    given = cluster_run.cluster(trace, topology, workloads, first, minutes, setting)
    options = {
        "first_minute": first,
        "minutes": minutes,
        **dataclasses.asdict(setting),
        "levels": how.levels,
        **{
            name: value
            for name, value in dataclasses.asdict(how.conditions).items()
            if name != "failures"
        },
        "failures": args.failures,
    }
    head = cluster_document.header(trace, given, workloads, options)
    results = _results(args.out, head, given, names, how, workers)
    if args.out:
        cluster_plots.draw(results, args.out)
    if args.json:
        print_json(cluster_document.document(head, results))
        return Exit.OK
    emit("", table(COLUMNS, map(_row, results)))
    if args.out:
        say(f"kept in {args.out}: a JSON file and a CSV file of jobs for each scheduler, and plots")
    return Exit.OK


def _results(
    out: Path | None,
    head: Mapping[str, Any],
    given: Cluster,
    names: Sequence[str],
    how: How,
    workers: int,
) -> list[ClusterResult]:
    """Return a result for each scheduler: those that are kept, and those run now."""
    from hostcc.sim import cluster_document, cluster_pool, cluster_run

    found = {name: cluster_document.kept(out, head, name) if out else None for name in names}
    missing = [name for name in names if found[name] is None]
    together = min(workers, len(missing)) > 1
    with progress_bar() as tell:
        # One alone says how far it is; of several, each that is finished counts.
        within = {} if together else {"progress": tell}
        cases = [partial(cluster_run.run, given, name, how, **within) for name in missing]
        if together:
            tell("schedulers", len(names) - len(missing), len(names))
        for index, one in cluster_pool.results(cases, workers):
            found[missing[index]] = one
            if out:
                cluster_document.keep(out, head, one)
            if together:
                done = sum(each is not None for each in found.values())
                tell("schedulers", done, len(names))
    return [one for one in found.values() if one is not None]


def _setting(args: argparse.Namespace) -> Setting:
    from hostcc.sim import cluster_jobs

    return cluster_jobs.Setting(
        args.placement,
        _whole(args.seed, "--seed", "numbers", 0, 2**53),
        _whole(args.queue_pairs, "--queue-pairs", "queue pairs", 1, cluster_jobs.MOST_QUEUE_PAIRS),
        number_of(
            args.scale, "--scale", "times", 1 / cluster_jobs.MOST_SCALE, cluster_jobs.MOST_SCALE
        ),
    )


def _how(args: argparse.Namespace) -> How:
    from hostcc.sim import cluster_conditions, cluster_run

    most = cluster_conditions.MOST_SECONDS
    return cluster_run.How(
        _whole(args.levels, "--levels", "levels", 1, cluster_run.MOST_LEVELS),
        cluster_conditions.Conditions(
            number_of(args.lag, "--lag", "seconds", 0, most),
            number_of(args.profiling, "--profiling", "seconds", 0, most),
            number_of(args.error, "--error", "a fraction", 0, cluster_conditions.MOST_ERROR),
            cluster_conditions.parse_failures(args.failures),
        ),
    )


def _whole(text: str, option: str, unit: str, least: int, most: int) -> int:
    value = number_of(text, option, unit, least, most)
    if value != int(value):
        raise InputError(f"{option}: expected a whole number, got {text!r:.40}")
    return int(value)


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
