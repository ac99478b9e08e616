"""Scheduling algorithms against the optimum on small clusters (hostcc.sim.study).

Per case: the optimum by enumeration, the result of each algorithm, and the time of both.  With
--out finished cases are kept, and an interrupted run resumes after them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

import numpy as np
from msgspec import Struct, structs

from benchmarks import options
from benchmarks.cases import CaseStore, Identity, identity_of
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc import schedule, sim
from hostcc.errors import InputError
from hostcc.sim.study import CaseResult, study

NOTE = (
    "order and levels are compared on ECMP's paths; in the optimum of the pipeline each job has "
    "a level of its own, the algorithms have three; work: the pipeline where hosts cannot measure "
    "it, which do not see computing that overlaps with communication either"
)
ERRORS = (0, 5, 20)
MOST_CASES = 100_000
STAGES = ("paths", "order", "levels", "pipeline")
SUBJECT, RIVAL = "hostcc", {"paths": "crux", "order": "crux", "levels": "algorithm1"}
MEAN = {"paths": 0.995, "order": 0.999, "levels": 0.999, "pipeline": 0.99}
"""Least mean share of the optimum without errors of measurement."""
MAX_WORK_LOSS = 0.03
"""How far the mean with assumed work may be below that with measured work."""
ASSUMED = ("assumed", "assumed, GPUs known")
WORST = 0.98
"""Least mean of the worst tenth."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Cases, seed, errors, processes."""
    whole = options.whole
    parser.add_argument(
        "--cases",
        type=whole("--cases", 1, MOST_CASES),
        default=1500,
        metavar="N",
        help="(default: %(default)s)",
    )
    options.add_seed(parser, "the cases")
    parser.add_argument(
        "--errors",
        type=options.wholes("--errors", 0, 90),
        default=ERRORS,
        metavar="N,N,...",
        help="errors of measurement in percent (default: 0,5,20)",
    )
    parser.add_argument(
        "--processes",
        type=whole("--processes", 1, 1024),
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes that share the cases (default: one per core)",
    )


class StoredResult(Struct, frozen=True):
    """A finished case on disk."""

    optimum: float
    schedules: int
    seconds: float
    found: list[tuple[float, str, str, float, float]]
    """(Error, stage, method, share, seconds)."""


def run(args: argparse.Namespace, context: Context) -> Record:
    """Study every case that is not kept already."""
    results = _studied(args.cases, args.seed, args.errors, args.processes, context)
    if not results:
        raise InputError("--report: expected finished cases in --out DIR, got none")
    found = record(results, seed=args.seed, errors=args.errors)
    missing = args.cases - len(results)
    failures = [f"{missing} of {args.cases} cases"] * bool(missing)
    return structs.replace(found, failures=failures)


def shares(
    cases: int, seed: int, context: Context
) -> dict[tuple[str, str], np.typing.NDArray[np.float64]]:
    """Shares of the optimum without errors of measurement: (stage, method) -> one per case."""
    results = _studied(cases, seed, (0,), os.cpu_count() or 1, context)
    found = results[0].shares
    return {key[1:]: np.array([one.shares[key] for one in results]) for key in found}


def _studied(
    cases: int, seed: int, errors: Sequence[int], processes: int, context: Context
) -> list[CaseResult]:
    store = CaseStore(context.out, StoredResult, fresh=context.fresh)
    results: dict[int, CaseResult] = {}
    for index in range(cases):
        kept = store.load(*_place(seed, index, errors))
        if kept is not None:
            results[index] = _restored(index, kept)
    missing = [index for index in range(cases) if index not in results]
    if context.report_only:
        missing = []
    for result in _results(seed, missing, errors, processes):
        results[result.index] = result
        store.save(*_place(seed, result.index, errors), _kept(result))
        context.tell(f"case {result.index}", len(results), cases)
    return [results[index] for index in sorted(results)]


def _results(
    seed: int, cases: Sequence[int], errors: Sequence[int], processes: int
) -> Iterator[CaseResult]:
    one = partial(study, seed, errors=[error / 100 for error in errors])
    if processes == 1 or not cases:
        yield from map(one, cases)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(one, cases, chunksize=4)


def _place(seed: int, index: int, errors: Sequence[int]) -> tuple[str, Identity]:
    what = {"seed": seed, "case": index, "errors": list(errors), "sources": _sources()}
    return f"small-cases/{seed}-{index:05}", identity_of(what, programs=False)


@cache
def _sources() -> str:
    """Digest of what is judged, and of the judge."""
    digest = hashlib.sha256()
    for package in (schedule, sim):
        for path in sorted(Path(package.__path__[0]).rglob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _kept(result: CaseResult) -> StoredResult:
    found = [(*key, share, result.took[key]) for key, share in result.shares.items()]
    return StoredResult(result.optimum, result.schedules, result.seconds, found)


def _restored(index: int, kept: StoredResult) -> CaseResult:
    result = CaseResult(index, kept.optimum, kept.schedules, kept.seconds)
    for error, stage, method, share, took in kept.found:
        result.shares[error, stage, method] = share
        result.took[error, stage, method] = took
    return result


def record(results: Sequence[CaseResult], *, seed: int, errors: Sequence[int]) -> Record:
    """The table, the goals, and every case for --json."""
    rows: list[dict[str, Cell]] = []
    shares = {key: np.array([one.shares[key] for one in results]) for key in results[0].shares}
    took = {key: float(np.mean([one.took[key] for one in results])) for key in results[0].took}
    for (error, stage, method), values in shares.items():
        rows.append(
            {
                "error": round(100 * error),
                "stage": stage,
                "method": method,
                "mean": float(values.mean()),
                "worst_tenth": worst_tenth(values),
                "least": float(values.min()),
                "seconds": took[error, stage, method],
            }
        )
    return Record(
        benchmark="small-cases",
        title=f"share of the optimum: {len(results)} cases of 5 jobs",
        parameters={
            "cases": len(results),
            "seed": seed,
            "errors": list(errors),
            "optimum_seconds": float(np.mean([one.seconds for one in results])),
            "optimum_schedules": float(np.mean([one.schedules for one in results])),
            "each": [_case(one) for one in results],
        },
        columns=[
            Column("error", "error %", digits=0),
            Column("stage", "stage"),
            Column("method", "method"),
            Column("mean", "mean %", digits=2, scale=100),
            Column("worst_tenth", "worst tenth %", digits=2, scale=100),
            Column("least", "least %", digits=2, scale=100),
            Column("seconds", "ms", digits=1, scale=1e3),
        ],
        rows=rows,
        goals=list(_goals(shares, errors)),
        notes=[NOTE],
    )


def worst_tenth(values: np.typing.NDArray[np.float64]) -> float:
    """Mean of the worst tenth, of one value at least."""
    return float(np.sort(values)[: max(1, len(values) // 10)].mean())


def _case(result: CaseResult) -> dict[str, object]:
    return {
        "case": result.index,
        "optimum_of_ideal": result.optimum,
        "optimum_seconds": result.seconds,
        "optimum_schedules": result.schedules,
        "found": [
            {
                "error": round(100 * error),
                "stage": stage,
                "method": method,
                "share": share,
                "seconds": result.took[error, stage, method],
            }
            for (error, stage, method), share in result.shares.items()
        ],
    }


def _goals(
    shares: dict[tuple[float, str, str], np.typing.NDArray[np.float64]], errors: Iterable[int]
) -> Iterator[Verdict]:
    for percent in errors:
        for stage in STAGES:
            error = percent / 100
            own = shares[error, stage, SUBJECT]
            rival = shares[error, stage, RIVAL.get(stage, "Crux")]
            where = f"{stage}, {percent} % error"
            if not percent:
                yield _verdict(where, f"mean >= {MEAN[stage]:.1%}", own.mean(), MEAN[stage])
                yield _verdict(where, f"worst tenth >= {WORST:.0%}", worst_tenth(own), WORST)
            yield _verdict(where, "mean no worse than Crux's", own.mean(), float(rival.mean()))
        measured = float(shares[percent / 100, "work", "measured"].mean())
        for method in ASSUMED:
            own = shares[percent / 100, "work", method]
            where = f"work {method}, {percent} % error"
            words = f"mean within {100 * MAX_WORK_LOSS:g} points of measured work"
            yield _verdict(where, words, own.mean(), measured - MAX_WORK_LOSS)


def _verdict(where: str, words: str, measured: float, least: float) -> Verdict:
    met = bool(measured >= least - 1e-9)
    return Verdict(where, words, spread([float(measured)]), int(met), met)
