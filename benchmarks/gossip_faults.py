"""Simulation testing of gossip: thousands of seeds of faults, each with its invariants."""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import cache
from pathlib import Path

import hostcc.coord
from benchmarks import gossip_history, gossip_world, options
from benchmarks.cases import CaseStore, Identity, identity_of
from benchmarks.context import Context
from benchmarks.gossip_history import BOUND_S, SETTINGS, Outcome, play
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.coord.core.message import PROTOCOL

NIGHTLY = 10_000
CHUNK = 50
"""Seeds of one case, so that a run that was interrupted, or several at a time, lose little."""
SHOWN = 20
WORST = 5
NOTE = (
    "a seed's hosts gossip through loss, duplication, reordering, delay, one-way links, "
    "partitions, crashes with lost state, clock steps, slow hosts, a liar and a member of the "
    "protocol version before or after; then the faults stop.  A seed fails in the same way "
    "every time: --seeds S:S+1"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Seeds, processes."""
    options.add_seeds(parser, NIGHTLY)
    parser.add_argument(
        "--processes",
        type=options.whole("--processes", 1, 1024),
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes that share the seeds (default: one per core)",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Play every seed that is not there already."""
    store = CaseStore(context.out, list[Outcome], context.fresh, any_programs=context.report_only)
    identity = identity_of_code()
    found: dict[int, list[Outcome]] = {}
    missing: list[range] = []
    for seeds in chunks(*args.seeds):
        known = store.load(_name(seeds), identity)
        if known is None:
            missing.append(seeds)
        else:
            found[seeds.start] = known
    total = len(found) + len(missing)
    for played in () if context.report_only else _played(missing, args.processes):
        first = played[0].seed
        found[first] = played
        store.save(_name(range(first, first + len(played))), identity, played)
        context.tell(f"seeds from {first}", len(found), total)
        for one in played:
            if one.violations:
                context.say(f"seed {one.seed}: {'; '.join(one.violations)}")
    unplayed = [s for s in missing if s.start not in found]
    outcomes = [one for first in sorted(found) for one in found[first]]
    return record(outcomes, [f"seeds {s.start}:{s.stop}: not played" for s in unplayed])


def chunks(first: int, end: int) -> Iterator[range]:
    """The seeds in parts that are the same whatever else is asked for, but at the ends."""
    while first < end:
        after = min(end, (first // CHUNK + 1) * CHUNK)
        yield range(first, after)
        first = after


@cache
def identity_of_code() -> Identity:
    """Cases are of one state of the core and of what drives it."""
    root = Path(hostcc.coord.__path__[0])
    code = [*sorted(root.glob("*.py")), root / "core"]
    code += [Path(module.__file__ or "") for module in (gossip_history, gossip_world)]
    return identity_of({"settings": asdict(SETTINGS)}, code=code)


def record(outcomes: Sequence[Outcome], unplayed: Sequence[str] = ()) -> Record:
    """The table: by the number of hosts."""
    rows: list[dict[str, Cell]] = []
    for hosts in sorted({one.hosts for one in outcomes}):
        some = [one for one in outcomes if one.hosts == hosts]
        settled = [one.settled_s for one in some]
        rows.append(
            {
                "hosts": hosts,
                "seeds": len(some),
                "settled": spread(settled),
                "worst": spread(settled).greatest,
                "rounds": None if None in settled else _rounds(max(map(_settled, some))),
                "activations": sum(one.activations for one in some),
                "refusals": sum(one.refusals for one in some),
                "failed": sum(bool(one.violations) for one in some),
            }
        )
    failed = [one for one in outcomes if one.violations]
    slowest = max(map(_settled, outcomes), default=0.0)
    return Record(
        benchmark="gossip-faults",
        title=f"{len(outcomes)} seeds of faults",
        parameters={
            "first": outcomes[0].seed if outcomes else None,
            "last": outcomes[-1].seed if outcomes else None,
            "bound_s": BOUND_S,
            "round_s": SETTINGS.round_s,
            "trace": _hash(outcomes),
        },
        columns=[
            Column("hosts", "hosts", digits=0),
            Column("seeds", "seeds", digits=0),
            Column("settled", "equal views after, s", digits=1),
            Column("worst", "at most, s", digits=1),
            Column("rounds", "at most, rounds", digits=0),
            Column("activations", "activations", digits=0),
            Column("refusals", "refusals told", digits=0),
            Column("failed", "failed", digits=0),
        ],
        rows=rows,
        goals=[
            _goal("every seed", "no violation", len(failed), 0),
            _goal("every seed", f"equal views within {BOUND_S:g} s", slowest, BOUND_S),
        ],
        notes=[NOTE, *_notes(outcomes)],
        failures=[
            *unplayed[:SHOWN],
            *(f"seed {one.seed}: {one.violations[0]}" for one in failed[:SHOWN]),
        ],
    )


def _notes(outcomes: Sequence[Outcome]) -> list[str]:
    slowest = sorted(outcomes, key=lambda one: (-_settled(one), one.seed))[:WORST]
    worst = ", ".join(f"{one.seed} ({_rounds(_settled(one))} rounds)" for one in slowest)
    liars = sum(one.liar for one in outcomes)
    others = sum(one.protocol != PROTOCOL for one in outcomes)
    return [
        f"slowest seeds: {worst}",
        f"with a liar: {liars}; with a member of another protocol version: {others}",
    ]


def _settled(one: Outcome) -> float:
    return 1e9 if one.settled_s is None else one.settled_s


def _rounds(seconds: float) -> int:
    return round(seconds / SETTINGS.round_s)


def _hash(outcomes: Sequence[Outcome]) -> str:
    """Of all that was said in all seeds: the same in every run."""
    digest = hashlib.blake2b(digest_size=8)
    for one in outcomes:
        digest.update(one.trace.encode())
    return digest.hexdigest()


def _goal(scope: str, text: str, value: float, most: float) -> Verdict:
    return Verdict(scope, text, spread([float(value)]), int(value <= most), value <= most)


def _name(seeds: range) -> str:
    return f"cases/seeds-{seeds.start}-{seeds.stop}"


def _play_all(seeds: range) -> list[Outcome]:
    """A chunk; collecting garbage in between only saves an eighth of the time."""
    gc.disable()
    try:
        played = []
        for seed in seeds:
            played.append(play(seed))
            if seed % 10 == 0:
                gc.collect()
        return played
    finally:
        gc.enable()


def _played(missing: Sequence[range], processes: int) -> Iterator[list[Outcome]]:
    if processes == 1 or len(missing) <= 1:
        yield from map(_play_all, missing)
        return
    pool = ProcessPoolExecutor(processes)
    try:
        for future in as_completed([pool.submit(_play_all, seeds) for seeds in missing]):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
