"""What `hostcc top` shows, line by line, and what keys do to it.  Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hostcc.answers.history import History
from hostcc.answers.status import JobStatus, Status
from hostcc.cli import status
from hostcc.cli.common import duration, seconds
from hostcc.cli.sparkline import sparkline

if TYPE_CHECKING:
    from rich.text import Text

ALARMS = 1 / 3
"""Part of the screen that alarms take at most."""
NAME, SPARK = 16, 10
"""Columns that the name and the sparkline have on a screen of 80; more if there are more."""
MIN_NAME, MIN_SPARK, MAX_SPARK = 8, 4, 60
KEYS = (
    ("q, Ctrl-C", "end"),
    ("s, S", "sort by the next column, by the one before"),
    ("n b i p a g l", "sort by name, bandwidth, iteration, p99, alone, gain, level"),
    ("r", "the other way round"),
    ("up down, k j", "scroll by a job"),
    ("page up/down, space", "scroll by a screen"),
    ("home, end", "to the first, to the last job"),
    ("left, right", "the other columns"),
    ("h, ?", "this page"),
)
"""Keys and what they do."""


@dataclass(frozen=True)
class Choice:
    """What a person has chosen to see."""

    sort: str = "b"
    """Key of a column."""
    reverse: bool = False
    first: int = 0
    """Place of the first job that is shown."""
    second: bool = False
    """Whether the second page of columns is shown."""
    help: bool = False


@dataclass(frozen=True)
class TopState:
    """All that a screen is made of."""

    status: Status
    history: History | None = None
    choice: Choice = field(default_factory=Choice)
    trouble: str = ""
    """Why it is not of now."""

    @property
    def sent(self) -> Mapping[str, Sequence[float | None]]:
        """Rates of each job, the latest last."""
        return {one.name: one.sent for one in self.history.jobs} if self.history else {}


@dataclass(frozen=True)
class _Column:
    title: str
    width: int
    key: str = ""
    """That sorts by it; empty: nothing does."""
    order: Callable[[JobStatus, TopState], float | str] = lambda job, _: job.name
    descends: bool = True
    cell: Callable[[JobStatus, TopState], str] | None = None
    """None: as `hostcc status` shows it."""
    left: bool = False

    def text(self, job: JobStatus, state: TopState) -> str:
        """What is in it."""
        if self.cell is not None:
            return self.cell(job, state)
        titles = [title for title, _ in status.COLUMNS]
        return status.job_row(job)[titles.index(self.title)]


def _bandwidth(job: JobStatus, state: TopState) -> float:
    return _now(state.sent.get(job.name, ())) or 0.0


def _level(job: JobStatus, state: TopState) -> float:
    levels = {one.name: one.level for one in state.status.plan.jobs} if state.status.plan else {}
    return float(levels.get(job.name, NO_LEVEL))


def _level_words(job: JobStatus, state: TopState) -> str:
    level = _level(job, state)
    return f"{level:.0f}" if level < NO_LEVEL else "-"


NO_LEVEL = 9999
LATE = 12
"""Steps up to which a count comes late (docs/look.md)."""
JOB = _Column("Job", NAME, "n", descends=False, cell=lambda job, _: job.name, left=True)
GRAPH = _Column("", SPARK, cell=lambda *_: "")
"""The sparkline."""
FIRST = (
    JOB,
    _Column("Stance", 9, left=True),
    _Column("Lvl", 3, "l", _level, descends=False, cell=_level_words),
    _Column(
        "Sent/s", 10, "b", _bandwidth, cell=lambda job, of: _rate(_now(of.sent.get(job.name, ())))
    ),
    GRAPH,
    _Column(
        "Iter.", 8, "i", lambda job, _: job.recent.mean_period_s or 0.0,
        cell=lambda job, _: seconds(job.recent.mean_period_s),
    ),
    _Column(
        "p99", 8, "p", lambda job, _: job.recent.p99_period_s or 0.0,
        cell=lambda job, _: seconds(job.recent.p99_period_s),
    ),
    _Column("Alone", 8, "a", lambda job, _: job.alone_s or 0.0),
    _Column("Gain", 6, "g", lambda job, _: job.gain or 0.0, descends=False),
)  # fmt: skip
"""Columns of the first page, all on 80."""
SECOND = (
    _Column("Control", 15, left=True),
    _Column("Weight", 7),
    _Column("Procs", 6),
    _Column("Flows", 6),
    _Column("Iterations", 11),
    _Column("Comm.", 8),
    _Column("Per iter.", 10),
    _Column("Sent", 8),
)
"""Columns of the second, beside the name; on wide screens all are on one."""
SORTS = {one.key: one for one in FIRST if one.key}


def lines(state: TopState, width: int, height: int, *, plain: bool = False) -> list[Text]:
    """The screen: at most `height` lines of at most `width` columns; what is wrong is on top.

    `plain`: the terminal knows no Unicode.
    """
    from rich.text import Text

    top = [_heading(state), *_alarms(state, width, height)]
    if state.choice.help:
        wide = max(len(keys) for keys, _ in KEYS)
        shown = [*top, *(Text(f"{keys:<{wide}}  {words}") for keys, words in KEYS)]
    else:
        room = _room(len(top), height)
        titles, rows = _rows(state, width, room, plain=plain)
        shown = [*[*top, titles, *rows][: max(0, height - 1)], _foot(state, room)]
    for line in shown:
        line.no_wrap = True
        line.truncate(width, overflow="crop" if plain else "ellipsis")
    return shown[:height]


def jobs_shown(state: TopState, width: int, height: int) -> int:
    """How many jobs a screen has room for."""
    return _room(1 + len(_alarms(state, width, height)), height)


def _room(top: int, height: int) -> int:
    return max(1, height - top - 2)


def pressed(choice: Choice, key: str, page: int, jobs: int) -> Choice | None:
    """What is chosen after a key; None: to end.  `page`: jobs on a screen, `jobs`: in all."""
    last = max(0, jobs - page)
    moves = {
        "up": -1, "k": -1, "down": 1, "j": 1, "page-up": -page, "page-down": page, " ": page,
        "home": -jobs, "end": jobs,
    }  # fmt: skip
    if key == "q":
        return None
    if key in ("left", "right"):
        return replace(choice, second=not choice.second)
    if key in ("h", "?") or choice.help:
        return replace(choice, help=not choice.help)
    if key in moves:
        return replace(choice, first=min(last, max(0, choice.first + moves[key])))
    if key in SORTS:
        return replace(choice, sort=key, reverse=False, first=0)
    if key in ("s", "S"):
        order = list(SORTS)
        following = order[(order.index(choice.sort) + (1 if key == "s" else -1)) % len(order)]
        return replace(choice, sort=following, reverse=False, first=0)
    return replace(choice, reverse=not choice.reverse) if key == "r" else choice


def ordered(state: TopState) -> list[JobStatus]:
    """The jobs as they are sorted; equal ones by name."""
    column = SORTS[state.choice.sort]
    by_name = sorted(state.status.jobs, key=lambda job: job.name)
    backwards = column.descends != state.choice.reverse
    return sorted(by_name, key=lambda job: column.order(job, state), reverse=backwards)


def _heading(state: TopState) -> Text:
    from rich.text import Text

    agent, plan = state.status.agent, state.status.plan
    doing = f"mode {agent.mode}" if agent.state == "active" else f"observing: {agent.reason}"
    total = sum(_bandwidth(job, state) for job in state.status.jobs)
    line = Text(f"hostcc {agent.instance}", style="bold")
    line.append(f"  {doing}, up {duration(agent.uptime_s)}", style="not bold")
    jobs = len(state.status.jobs)
    sending = "1 job sends" if jobs == 1 else f"{jobs} jobs send"
    line.append(f"  {sending} {_rate(total)}", style="not bold")
    if plan is not None and plan.follows:
        line.append(f"  plan {plan.follows[:8]}", style="not bold")
    return line


def _alarms(state: TopState, width: int, height: int) -> list[Text]:
    from rich.text import Text

    words = [f"not of now: {state.trouble}"] if state.trouble else []
    words += status.heading(state.status.agent)[2:]
    words += [line.plain for line in status.sections(state.status)[0]]
    cut = [
        line
        for one in words
        for line in textwrap.wrap(f"! {one}", max(20, width), subsequent_indent="  ")
    ]
    most = max(1, int(height * ALARMS))
    if len(cut) > most:
        cut = [*cut[: most - 1], f"! {len(cut) - most + 1} more lines: hostcc status"]
    return [Text(line, style="bold red") for line in cut]


def _columns(choice: Choice, width: int, longest: int) -> list[tuple[_Column, int]]:
    """The columns and their widths: the name gets what it needs, then the sparkline."""
    wide = width >= sum(one.width for one in (*FIRST, *SECOND))
    shown = (*FIRST, *SECOND) if wide else (JOB, *SECOND) if choice.second else FIRST
    left = width - sum(one.width for one in shown if one not in (JOB, GRAPH))
    spark = min(SPARK, max(MIN_SPARK, left - NAME)) if GRAPH in shown else 0
    name = max(MIN_NAME, min(left - spark, max(NAME - 1, longest) + 1))
    spark = min(MAX_SPARK, max(spark, left - name)) if GRAPH in shown else 0
    return [(one, name if one is JOB else spark if one is GRAPH else one.width) for one in shown]


def _rows(state: TopState, width: int, room: int, *, plain: bool) -> tuple[Text, list[Text]]:
    from rich.text import Text

    jobs = ordered(state)
    columns = _columns(state.choice, width, max((len(job.name) for job in jobs), default=0))
    titles = Text("".join(_title(*each, state.choice, plain=plain) for each in columns))
    titles.stylize("reverse")
    if not jobs:
        if state.status.agent.state != "active":
            return titles, [Text("no job is managed; what is measured: hostcc jobs --detail")]
        return titles, [Text("no jobs; start one: hostcc run --job NAME -- COMMAND")]
    top = max((value or 0.0 for job in jobs for value in state.sent.get(job.name, ())), default=0.0)
    first = max(0, min(state.choice.first, len(jobs) - room))
    rows = []
    for job in jobs[first : first + room]:
        row = Text()
        for column, wide in columns:
            if column is GRAPH:
                sent = _filled(state.sent.get(job.name, ()))
                row.append(" " + sparkline(sent, wide - 1, top, plain=plain), style="cyan")
            else:
                text = shortened(column.text(job, state), wide - 1, plain=plain)
                row.append(_placed(text, column, wide))
        rows.append(row)
    return titles, rows


def _title(column: _Column, wide: int, choice: Choice, *, plain: bool) -> str:
    text = column.title
    if column.key == choice.sort:
        down, up = ("v", "^") if plain else ("▼", "▲")
        text += down if column.descends != choice.reverse else up
    return _placed(text, column, wide)


def _placed(text: str, column: _Column, wide: int) -> str:
    if column is JOB:
        return text.ljust(wide)
    return f" {text}".ljust(wide) if column.left else text.rjust(wide)


def _foot(state: TopState, room: int) -> Text:
    from rich.text import Text

    jobs = len(state.status.jobs)
    first = max(0, min(state.choice.first, jobs - room))
    shown = f"jobs {first + 1} to {min(jobs, first + room)} of {jobs}" if jobs else "no jobs"
    return Text(f"{shown}   q end  s sort  r reverse  up/down scroll  h help", style="dim")


def _now(values: Sequence[float | None]) -> float | None:
    """The latest figure that is known, of the last few."""
    return next((value for value in reversed(values[-LATE:]) if value is not None), None)


def _filled(values: Sequence[float | None]) -> list[float | None]:
    """Short gaps filled from what follows: a count that came late is the mean of them."""
    found: list[float | None] = []
    following: float | None = None
    left = 0
    for value in reversed(values):
        left = LATE if value is not None else left - 1
        following = value if value is not None else following
        found.append(following if left > 0 else None)
    return found[::-1]


def _rate(value: float | None) -> str:
    """In bits per second, in at most nine columns."""
    if value is None:
        return "-"
    for unit, step in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value * 8 >= step:
            return f"{value * 8 / step:.3g} {unit}b/s"
    return f"{value * 8:.0f} b/s"


def shortened(name: str, wide: int, *, plain: bool) -> str:
    """The beginning and the end: names of one kind often differ at the end."""
    if len(name) <= wide:
        return name
    tail = max(1, wide // 2 - 1)
    return f"{name[: max(0, wide - tail - 1)]}{'~' if plain else '…'}{name[-tail:]}"
