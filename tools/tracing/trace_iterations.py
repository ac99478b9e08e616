"""`tools/trace-iterations`: when each job communicates, live."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from hostcc.cli.common import seconds, size
from tools.tracing.bcc_program import Program
from tools.tracing.script import (
    Output,
    Until,
    make_parser,
    positive_count,
    positive_seconds,
    ready,
    run,
)
from tools.tracing.socket_jobs import Jobs, add_job_options, publish
from tools.tracing.timeline import MIN_BYTES, Floats, Ints, Iteration, Segmenter, cells, lane

POLL_S = 0.1
BIN_NS = 1_000_000
BIN_S = BIN_NS / 1e9
WIDTH = 64
HOOKS = ("tcp_probe", "inet_sock_set_state")
LATE_BINS = 2
"""Bins that may still grow when they are read."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = make_parser(
        "trace-iterations",
        "Show live when each job communicates, and its iterations.",
        "tools/trace-iterations --job train-a --job train-b --duration 30",
        "N iterations, of all jobs together",
        "Counts what the peers of a job's TCP connections acknowledge, in bins of a millisecond.\n"
        "Text: a line an iteration, and every few seconds a lane a job, from left to right;\n"
        "JSON: a line an iteration.",
    )
    made.add_argument(
        "--window",
        type=positive_seconds,
        default=2.0,
        metavar="S",
        help="length of a lane (default: %(default)g)",
    )
    made.add_argument(
        "--silence",
        type=positive_seconds,
        metavar="S",
        help="pause that ends an iteration (default: the agent's setting, or learned)",
    )
    made.add_argument(
        "--min-bytes",
        type=positive_count,
        default=MIN_BYTES,
        metavar="N",
        help="fewer bytes are no iteration (default: %(default)d)",
    )
    add_job_options(made)
    return made


class Timeline:
    """Traffic of every job so far."""

    def __init__(self, silence_s: float | None, min_bytes: int) -> None:
        self._silence = silence_s
        self._min_bytes = min_bytes
        self._segmenters: dict[str, Segmenter] = {}
        self._recent: dict[str, tuple[Ints, Ints]] = {}
        self.latest: dict[str, Iteration] = {}

    def add(self, job: str, silence_us: int | None, rows: Ints) -> list[Iteration]:
        """Rows (bin, bytes, busy) of one job, ascending; returns the iterations that they end."""
        bins, counts, busy = rows.T
        if job not in self._segmenters:
            known = silence_us / 1e6 if silence_us else None
            self._segmenters[job] = Segmenter(BIN_S, self._silence or known, self._min_bytes)
            self._recent[job] = (np.empty(0, np.int64), np.empty(0, np.int64))
        old = self._recent[job]
        self._recent[job] = (np.append(old[0], bins), np.append(old[1], counts))
        return self._note(job, self._segmenters[job].feed(_seconds_of(bins), counts, busy))

    def idle(self, now_s: float) -> list[tuple[str, Iteration]]:
        """Iterations that silence has ended."""
        return [
            (job, done)
            for job, segmenter in self._segmenters.items()
            for done in self._note(job, segmenter.idle(now_s))
        ]

    def _note(self, job: str, done: list[Iteration]) -> list[Iteration]:
        if done:
            self.latest[job] = done[-1]
        return done

    def lanes(self, start_s: float, end_s: float) -> list[tuple[str, str]]:
        """(job, lane) for every job seen, on one scale; forgets what lies before."""
        amounts = {}
        for job, (bins, counts) in self._recent.items():
            keep = _seconds_of(bins) >= start_s
            self._recent[job] = (bins[keep], counts[keep])
            amounts[job] = cells(
                _seconds_of(bins[keep]), counts[keep].astype(float), start_s, end_s, WIDTH
            )
        peak = max((float(a.max()) for a in amounts.values()), default=0.0)
        return [(job, lane(amounts[job], peak)) for job in sorted(amounts)]


def trace(args: argparse.Namespace, until: Until, out: Output) -> None:
    """Print until the limit or a signal."""
    jobs = Jobs(args, out)
    macros = {"BIN_NS": f"{BIN_NS}ULL"}
    with Program(["common", "jobs", "iterations"], HOOKS, macros) as program:
        publish(jobs, program)
        ready(out, until, "the jobs' iterations")
        line = Timeline(args.silence, args.min_bytes)
        begun_s = monotonic_s()
        shown_s = begun_s
        for _ in until.ticks(POLL_S):
            if jobs.refresh():
                publish(jobs, program)
            now_s = monotonic_s()
            for name, done in _read(program, jobs, line, until.over):
                report(out, name, done, begun_s)
            for name, done in line.idle(now_s - LATE_BINS * BIN_S):
                report(out, name, done, begun_s)
            # A rest that is too short for a lane says nothing.
            if now_s - shown_s >= (args.window / 4 if until.over else args.window):
                _draw(out, line, shown_s, now_s, begun_s)
                shown_s = now_s


def _seconds_of(bins: Ints) -> Floats:
    return bins.astype(np.float64) * BIN_S


def monotonic_s() -> float:
    """The clock that the bins are made with, bpf_ktime_get_ns()."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e9


def _read(
    program: Program, jobs: Jobs, line: Timeline, everything: bool
) -> list[tuple[str, Iteration]]:
    """Take the finished bins out of the kernel; returns the iterations that they end."""
    table = program.table("bins")
    last = int(monotonic_s() / BIN_S) - (0 if everything else LATE_BINS)
    found: dict[int, list[tuple[int, int, int]]] = {}
    for key, value in program.rows("bins"):
        if key.at <= last:
            found.setdefault(key.job, []).append((key.at, value.bytes, value.busy))
            del table[key]
    known = jobs.by_number()
    ended: list[tuple[str, Iteration]] = []
    for number, taken in found.items():
        if (job := known.get(number)) is None:
            continue
        rows = np.array(sorted(taken), dtype=np.int64)
        silence = job.parameters.silence_us if job.parameters else None
        ended += [(job.name, i) for i in line.add(job.name, silence, rows)]
    return sorted(ended, key=lambda pair: pair[1].end_s)


def report(out: Output, name: str, done: Iteration, begun_s: float) -> None:
    """One iteration; in text it is part of the lanes."""
    wall = time.time() - monotonic_s()
    record = {
        "job": name,
        "iteration": done.number,
        "at": round(wall + done.start_s, 6),
        "start_s": round(done.start_s - begun_s, 6),
        "communication_s": round(done.communication_s, 6),
        "period_s": None if done.period_s is None else round(done.period_s, 6),
        "bytes": done.bytes,
    }
    out.result(record, iteration_text(name, done, begun_s))


def iteration_text(name: str, done: Iteration, begun_s: float) -> str:
    """One line for a person."""
    return (
        f"{done.start_s - begun_s:10.3f} s  {name:<20} #{done.number:<5}"
        f" period {seconds(done.period_s):>8}  communication {seconds(done.communication_s):>8}"
        f"  {size(done.bytes):>8}"
    )


def _draw(out: Output, line: Timeline, start_s: float, end_s: float, begun_s: float) -> None:
    lanes = line.lanes(start_s, end_s)
    if lanes:
        out.heading(
            f"{start_s - begun_s:10.3f} s, one character {seconds((end_s - start_s) / WIDTH)}"
        )
    for name, drawn in lanes:
        out.heading(f"{'':12} {name:<20} |{drawn}|")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; the exit status."""
    return run(parser(), argv, trace)


if __name__ == "__main__":
    raise SystemExit(main())
