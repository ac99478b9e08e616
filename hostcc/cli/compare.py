"""`hostcc compare`: what each way of sharing makes of the jobs' iterations, on the live host."""

from __future__ import annotations

import argparse
import itertools
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from hostcc.answers.host import Borrowing
from hostcc.answers.jobs import PROFILE
from hostcc.answers.status import Status
from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    decoded,
    emit,
    print_json,
)
from hostcc.cli.progress_bar import progress_bar
from hostcc.client import RefusedError, ask
from hostcc.daemon.api.messages import MAX_TOGETHER_S
from hostcc.errors import Exit, HostccError, InputError, NoJobError
from hostcc.foreign import say
from hostcc.limits import JOB_NAME_WORDS, is_job_name
from hostcc.measure.mode_blocks import MIN_ITERATIONS, MIN_ROUNDS, Block, Interval, ModeFigures

if TYPE_CHECKING:
    from hostcc.measure.series import ByteSeries

SCHEMA = "hostcc.compare/1"
MODES = ("off", "mltcp", "static")
MAX_S = 24 * 3600.0
ASK_S = 5.0
"""Between two requests for the mode, which ends after three of them."""
PIECE_S = 10.0
"""Between two recordings of a job's bytes, each of which has the last sixteen seconds at least."""
MIN_CONFIDENCE = 0.7
"""That a job's bytes an iteration are right: all its times follow from them."""
BLOCK_ITERATIONS = 40
ALIKE_ITERATIONS, SETTLED_ITERATIONS = 6, 8
"""Before a block, in which all jobs share alike and the agents see their iterations; and of a
block, left out, in which the mode takes effect."""
EPILOG = """\
Switches between the modes in random order, in blocks, and measures each job's iterations by its
bytes. Each block begins with the jobs in step, because jobs that were pulled apart stay apart for
a while. Hosts that gossip with this one switch with it. What was in force comes back at the end,
also when this command is killed, and a choice that somebody makes meanwhile ends the comparison.
The first mode is what the others are compared with.
"""


@dataclass(frozen=True)
class Subject:
    """A job that is compared."""

    name: str
    period_s: float
    bytes_per_iteration: float
    """In the direction with more."""


@dataclass(frozen=True)
class Schedule:
    """When what is measured."""

    alike_s: float
    """In which all jobs share alike."""
    step_s: float
    """In which they wait, to begin in step."""
    settle_s: float
    pieces: int
    """Of PIECE_S, measured."""
    rounds: int

    @property
    def block_s(self) -> float:
        """One block, seconds."""
        return self.alike_s + self.step_s + self.settle_s + self.pieces * PIECE_S


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "compare", "measure what each way of sharing brings here")
    parser.epilog = EPILOG
    add = parser.add_argument
    add("--for", dest="for_s", type=seconds_of, default=600.0, metavar="TIME", help="time [10m]")
    add("--jobs", metavar="JOB,...", help="only these [all with a known pattern]")
    add("--modes", default="off,mltcp", metavar="MODE,...", help="off, mltcp, static [off,mltcp]")
    add("--seed", type=int, help="of the order of blocks [another one each time]")
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Compare, and show."""
    modes = modes_of(args.modes)
    subjects = subjects_of(args.socket, jobs_of(args.jobs))
    plan = schedule(max(one.period_s for one in subjects), args.for_s, len(modes))
    order = random.Random(args.seed)
    with borrowing(args.socket) as borrow, progress_bar() as tell:
        lent = borrow("static", alike=True)
        blocks = measured(args.socket, subjects, modes, plan, order, borrow, tell)
    from hostcc.measure.mode_blocks import figures

    found = {one.name: figures(blocks[one.name], modes) for one in subjects}
    if args.json:
        switched = {"other_hosts": lent.hosts_told, "in_step": lent.together}
        print_json(document(found, blocks, modes, plan) | switched)
    else:
        show(found, blocks)
        told = lent.hosts_told
        also = f"and {told} that gossip with it" if told else "alone: it gossips with no other"
        say(f"Switched: this host {also}.")
        if not lent.together:
            say(
                "Blocks did not begin in step, because gates are off (hostcc shifts on): jobs that "
                "were apart may have stayed apart in every mode."
            )
    return Exit.OK if all(found.values()) else Exit.FAILED


def seconds_of(text: str) -> float:
    """A time like 90s, 10m or 1h.  Raises InputError."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smh]?)", text)
    if match is None:
        raise InputError(f"--for: expected a time like 90s, 10m or 1h, got {text[:80]!r}")
    return float(match[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}[match[2]]


def modes_of(text: str) -> tuple[str, ...]:
    """The modes to compare.  Raises InputError."""
    modes = tuple(text.split(","))
    if len(modes) < 2 or len(set(modes)) != len(modes) or not set(modes) <= set(MODES):
        raise InputError(f"--modes: expected at least two of {', '.join(MODES)}, got {text[:80]!r}")
    return modes


def jobs_of(text: str | None) -> tuple[str, ...]:
    """The jobs that were named.  Raises InputError."""
    names = tuple(text.split(",")) if text is not None else ()
    for name in names:
        if not is_job_name(name):
            raise InputError(f"--jobs: expected {JOB_NAME_WORDS}, got {name[:80]!r}")
    return names


def schedule(period_s: float, for_s: float, modes: int) -> Schedule:
    """Plan blocks for jobs whose longest iteration is `period_s`.  Raises InputError."""
    if not 0 < for_s <= MAX_S:
        raise InputError(f"--for: expected at most {MAX_S / 3600:g} h")
    pieces = max(1, round(BLOCK_ITERATIONS * period_s / PIECE_S))
    alike_s, step_s = ALIKE_ITERATIONS * period_s, min(period_s, MAX_TOGETHER_S)
    plan = Schedule(alike_s, step_s, SETTLED_ITERATIONS * period_s, pieces, 0)
    rounds = int(for_s / (modes * plan.block_s))
    if rounds < MIN_ROUNDS:
        needed = MIN_ROUNDS * modes * plan.block_s
        raise InputError(f"--for: expected at least {needed:.0f}s for {MIN_ROUNDS} rounds of modes")
    return replace(plan, rounds=rounds)


def subjects_of(socket: Path, names: Sequence[str]) -> list[Subject]:
    """The jobs to compare, with their patterns.  Raises HostccError for one that has none."""
    status = decoded(socket, ask(socket, "status", 5.0), Status)
    if status.agent.state != "active":
        raise HostccError(f"nothing to compare: {status.agent.reason or status.agent.state}")
    found = []
    for name in names or [job.name for job in status.jobs]:
        answer = ask(socket, "profile", job=name)
        profile = answer.get("profile") or {}
        sure = profile.get("confidence", 0.0) >= MIN_CONFIDENCE
        if profile.get("periodic") and sure:
            size = max(profile["tx_bytes"], profile["rx_bytes"])
            found.append(Subject(name, profile["mean_period_s"], size))
        elif names:
            why = answer.get("profile_reason") or profile.get("reason") or "not measured yet"
            why = "its pattern is not sure yet" if profile.get("periodic") else why
            raise HostccError(f"job {name} has no iterations to compare: {why}")
    if not found:
        raise HostccError("no job here has a known pattern yet; hostcc jobs --detail says why")
    return found


Borrow = Callable[..., Borrowing]


@contextmanager
def borrowing(socket: Path) -> Iterator[Borrow]:
    """Borrow modes, and give back what was in force at the end."""

    def borrow(mode: str, *, alike: bool = False, together_s: float = 0.0) -> Borrowing:
        answer = ask(socket, "borrow", 10.0, mode=mode, alike=alike, together_s=together_s)
        return decoded(socket, answer, Borrowing)

    try:
        yield borrow
    finally:
        with suppress(HostccError):  # without an agent there is nothing to give back
            ask(socket, "borrow", 10.0)


def measured(
    socket: Path,
    subjects: Sequence[Subject],
    modes: Sequence[str],
    plan: Schedule,
    order: random.Random,
    borrow: Borrow,
    tell: Callable[[str, int, int], None],
) -> dict[str, list[Block]]:
    """Run all rounds; job -> its blocks."""
    found: dict[str, list[Block]] = {one.name: [] for one in subjects}
    done, total = 0, plan.rounds * len(modes)
    for at in range(plan.rounds):
        for mode in order.sample(modes, len(modes)):
            tell(f"round {at + 1} of {plan.rounds}: {mode}", done, total)
            keep(plan.alike_s, lambda: borrow("static", alike=True))
            borrow("static", alike=True, together_s=plan.step_s)
            keep(plan.step_s, lambda: borrow("static", alike=True))
            keep(plan.settle_s, lambda mode=mode: borrow(mode))  # type: ignore[misc]
            since_s = time.monotonic()
            pieces: dict[str, list[ByteSeries]] = {one.name: [] for one in subjects}
            for _ in range(plan.pieces):
                keep(PIECE_S, lambda mode=mode: borrow(mode))  # type: ignore[misc]
                for one in subjects:
                    pieces[one.name] += recorded(socket, one)
            for one in subjects:
                times = iteration_times(pieces[one.name], one, since_s)
                found[one.name].append(Block(at, mode, times))
            done += 1
    return found


def keep(for_s: float, again: Callable[[], object]) -> None:
    """Wait, asking again for the mode."""
    end_s = time.monotonic() + for_s
    while (left_s := end_s - time.monotonic()) > 0:
        again()
        time.sleep(min(ASK_S, left_s))


def recorded(socket: Path, subject: Subject) -> list[ByteSeries]:
    """The last bytes of a job over time; nothing when it has ended."""
    from hostcc.measure import replay

    answer: dict[str, Any]
    try:
        answer = ask(socket, "profile", 10.0, job=subject.name, series=True)
    except RefusedError as error:
        if error.code != NoJobError.code:
            raise
        return []
    sent = answer.get("recording")
    if answer.get("schema") != PROFILE or sent is None:
        return []
    return [replay.received(subject.name, "here", sent).series]


def iteration_times(
    pieces: Sequence[ByteSeries], subject: Subject, since_s: float
) -> tuple[float, ...]:
    """The times of iterations since a moment, of recordings that overlap; those in which bytes of
    one are missing are left out."""
    from hostcc.measure.iteration_starts import iteration_marks
    from hostcc.measure.series import NS, continued

    runs: list[ByteSeries] = []
    for piece in pieces:
        begin = max(0, round((since_s * NS - piece.start_ns) / piece.bin_ns))
        try:
            runs[-1:] = [continued(runs[-1], piece)]
        except (IndexError, ValueError):
            runs.append(piece.part(begin))
    times: list[float] = []
    for run in runs:
        marks = iteration_marks(run, subject.bytes_per_iteration)
        times += [float(later - earlier) for earlier, later in itertools.pairwise(marks)]
    return tuple(times)


def document(
    found: dict[str, tuple[ModeFigures, ...]],
    blocks: dict[str, list[Block]],
    modes: Sequence[str],
    plan: Schedule,
) -> dict[str, Any]:
    """What --json prints."""
    import msgspec

    return {
        "schema": SCHEMA,
        "modes": list(modes),
        "rounds": plan.rounds,
        "block_s": plan.block_s,
        "jobs": [
            {
                "job": job,
                "figures": msgspec.to_builtins(of),
                "reason": "" if of else too_few(blocks[job]),
            }
            for job, of in found.items()
        ],
    }


def too_few(blocks: Sequence[Block]) -> str:
    """Why a job has no figures."""
    counts = [len(block.times_s) for block in blocks]
    return (
        f"not enough iterations: {sum(counts)} in {len(counts)} blocks, expected {MIN_ITERATIONS} "
        f"in every block of {MIN_ROUNDS} rounds"
    )


def show(found: dict[str, tuple[ModeFigures, ...]], blocks: dict[str, list[Block]]) -> None:
    """For people."""
    table = Table(*("Job", "Mode", "Iterations", "Blocks", "Mean", "p99", "Gain"), box=None)
    for job, of in found.items():
        for row in of:
            gain = _ratio(row.gain) if row.gain is not None else ""
            counts = str(row.iterations), str(row.blocks)
            table.add_row(job, row.mode, *counts, _time(row.mean_s), _time(row.p99_s), gain)
    if table.row_count:
        emit(table)
        say("In brackets: 95 % confidence intervals, with blocks as observations.")
    for job, of in found.items():
        if not of:
            say(f"{job}: {too_few(blocks[job])}; try a longer --for")


def _time(of: Interval) -> str:
    return f"{of.value * 1e3:.1f} ms ({of.low * 1e3:.1f} to {of.high * 1e3:.1f})"


def _ratio(of: Interval) -> str:
    return f"{of.value:.3f} ({of.low:.3f} to {of.high:.3f})"
