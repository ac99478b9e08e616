"""Simulation testing of gossip: thousands of seeds of faults, each with its invariants."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from hostcc.bench import options
from hostcc.bench.context import Context
from hostcc.bench.gossip_history import BOUND_S, SETTINGS, Outcome, play
from hostcc.bench.record import Cell, Column, Record, Verdict, spread

NIGHTLY = 10_000
SHOWN = 20
NOTE = (
    "a seed's hosts gossip through loss, duplication, reordering, delay, one-way links, "
    "partitions, crashes with lost state, clock steps, slow hosts and a liar; then the faults "
    "stop.  A seed fails in the same way every time: --seeds S:S+1"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Seeds, processes."""
    parser.add_argument(
        "--seeds",
        type=options.span("--seeds", 0, 2**31),
        default=(0, NIGHTLY),
        metavar="A:B",
        help=f"from A up to but not B (default: 0:{NIGHTLY})",
    )
    parser.add_argument(
        "--processes",
        type=options.whole("--processes", 1, 1024),
        default=os.cpu_count() or 1,
        metavar="N",
        help="that share the seeds (default: one per core)",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Play every seed."""
    first, end = args.seeds
    outcomes = []
    for outcome in _outcomes(range(first, end), args.processes):
        outcomes.append(outcome)
        context.tell(f"seed {outcome.seed}", len(outcomes), end - first)
        if outcome.violations:
            context.say(f"seed {outcome.seed}: {'; '.join(outcome.violations)}")
    return record(outcomes)


def record(outcomes: Sequence[Outcome]) -> Record:
    """The table: by the number of hosts."""
    rows: list[dict[str, Cell]] = []
    for hosts in sorted({one.hosts for one in outcomes}):
        some = [one for one in outcomes if one.hosts == hosts]
        settled = [None if one.settled_s is None else one.settled_s for one in some]
        rows.append(
            {
                "hosts": hosts,
                "seeds": len(some),
                "settled": spread(settled),
                "worst": spread(settled).greatest,
                "activations": sum(one.activations for one in some),
                "offenders": sum(one.quarantined for one in some),
                "failed": sum(bool(one.violations) for one in some),
            }
        )
    failed = [one for one in outcomes if one.violations]
    worst = [1e9 if one.settled_s is None else one.settled_s for one in outcomes]
    return Record(
        benchmark="gossip-faults",
        title=f"{len(outcomes)} seeds of faults",
        parameters={
            "first": outcomes[0].seed,
            "last": outcomes[-1].seed,
            "bound_s": BOUND_S,
            "round_s": SETTINGS.round_s,
            "traces": [one.trace for one in outcomes],
        },
        columns=[
            Column("hosts", "hosts", digits=0),
            Column("seeds", "seeds", digits=0),
            Column("settled", "equal views after, s", digits=1),
            Column("worst", "at most, s", digits=1),
            Column("activations", "activations", digits=0),
            Column("offenders", "offenders named", digits=0),
            Column("failed", "failed", digits=0),
        ],
        rows=rows,
        goals=[
            _goal("every seed", "no violation", [len(failed)], 0),
            _goal("every seed", f"equal views within {BOUND_S:g} s", [max(worst)], BOUND_S),
        ],
        notes=[NOTE],
        failures=[f"seed {one.seed}: {one.violations[0]}" for one in failed[:SHOWN]],
    )


def _goal(scope: str, text: str, values: list[float], most: float) -> Verdict:
    met = values[0] <= most
    return Verdict(scope, text, spread([float(value) for value in values]), int(met), met)


def _outcomes(seeds: Sequence[int], processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from map(play, seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(play, seeds, chunksize=4)
