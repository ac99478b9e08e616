"""The bandwidth of a lab's jobs on the terminal while they run; the drawing itself is pure."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from hostcc.cli.sparkline import BLOCKS, sparkline
from hostcc.lab.live import INTERVAL_S, Floats, LiveRun, watching
from hostcc.lab.network import Network
from hostcc.lab.scenario import JobSpec

if TYPE_CHECKING:
    from rich.text import Text

DRAWINGS_PER_S = 8
ROWS = 3
"""Lines of a job's bars."""
MAX_ROWS = 18
"""Lines of bars in all; with more jobs each gets fewer."""
STYLES = ("blue", "dark_orange", "green", "magenta", "cyan", "yellow", "red", "white")
WINDOWS = 2
"""Windows of `Overlap` at the beginning, and before the last, that are compared."""


class LiveDrawing:
    """Runs that are watched, and a screen that shows the present one."""

    def __init__(self) -> None:
        self.runs: list[LiveRun] = []
        self._progress = ("", 0, 0)

    def watch(
        self, network: Network, jobs: Sequence[JobSpec], title: str
    ) -> AbstractContextManager[LiveRun]:
        """Watch a run that begins."""
        return watching(network, jobs, title, self.runs.append)

    def tell(self, what: str, done: int, total: int) -> None:
        """Say how far it is."""
        self._progress = what, done, total

    @contextmanager
    def shown(self) -> Iterator[Callable[[str, int, int], None]]:
        """Draw several times a second on a terminal, nothing elsewhere."""
        if not sys.stderr.isatty():
            yield self.tell
            return
        from rich.console import Console
        from rich.live import Live

        screen = Console(stderr=True, highlight=False, markup=False)
        ended = threading.Event()
        with Live(console=screen, auto_refresh=False, transient=True) as live:

            def draw() -> None:
                while not ended.wait(1 / DRAWINGS_PER_S):
                    lines = self.frame(screen.width, screen.height)
                    live.update(joined(lines), refresh=True)

            thread = threading.Thread(target=draw, name="drawing", daemon=True)
            thread.start()
            try:
                yield self.tell
            finally:
                ended.set()
                thread.join()
        # What was seen stays above the table.
        for run in self.runs:
            screen.print(verdict(run))

    def frame(self, width: int, height: int) -> list[Text]:
        """What is on the screen now."""
        what, done, total = self._progress
        run = self.runs[-1] if self.runs and self.runs[-1].title == what else None
        return frame(what, done, total, run, width, height)


def frame(
    what: str, done: int, total: int, run: LiveRun | None, width: int, height: int
) -> list[Text]:
    """A heading, bars of each job over the last seconds, and how often jobs sent at once."""
    from rich.text import Text

    lines = [Text(f"{what}: iteration {done} of {total}" if what else "begins")]
    if run is None:
        return lines
    lines[0].stylize("bold")
    times, rates = run.rates((width - 2) * INTERVAL_S)
    top = float(rates.max()) if rates.size else 0.0
    rows = max(1, min(ROWS, MAX_ROWS // max(1, len(run.jobs)), (height - 4) // len(run.jobs) - 1))
    for at, job in enumerate(run.jobs):
        mean = float(rates[:, at].mean()) if len(times) else 0.0
        style = STYLES[at % len(STYLES)]
        lines.append(Text(f"{job}  {mean * 8 / 1e6:.0f} Mbit/s", style=style))
        drawn = bars(rates[:, at], width - 2, rows, top)
        lines += [Text(f" {line}", style=style) for line in drawn]
    if len(run.jobs) > 1:
        lines += [Text(at_once(run, max(10, width - 46)))]
    for line in lines:
        line.no_wrap = True
        line.truncate(width)
    return lines[: max(1, height - 1)]


def bars(values: Floats, width: int, rows: int, top: float) -> list[str]:
    """Bars of the latest `width` values, `rows` lines high; `top`: of a full bar.  Pure."""
    shown = values[-width:] if width > 0 else values[:0]
    steps = len(BLOCKS)
    eighths = (
        np.rint(shown / top * rows * steps).astype(int) if top > 0 else np.zeros(len(shown), int)
    )
    lines = []
    for row in reversed(range(rows)):
        filled = np.clip(eighths - row * steps, 0, steps)
        text = "".join(BLOCKS[count - 1] if count else " " for count in filled.tolist())
        lines.append(text.rjust(width))
    return lines


def at_once(run: LiveRun, width: int) -> str:
    """How often several jobs sent at once since the start, second by second."""
    part = run.overlap().part
    values = [None if np.isnan(one) else float(one) for one in part.tolist()]
    known = [one for one in values if one is not None]
    now = f"{known[-1]:4.0%}" if known else "   -"
    return (
        f"send at once: {now} of the time, since the start {sparkline(values, width, 1.0).lstrip()}"
    )


def verdict(run: LiveRun) -> str:
    """What was to be seen: how often jobs sent at once at first, and at the end."""
    part = run.overlap().part
    first, last = part[:WINDOWS], part[-WINDOWS - 1 : -1]
    if len(part) <= 2 * WINDOWS or np.isnan(first).all() or np.isnan(last).all():
        return f"{run.title}: too short to tell whether the jobs were pulled apart"
    return (
        f"{run.title}: jobs sent at once {np.nanmean(first):.0%} of the time at first, "
        f"{np.nanmean(last):.0%} at the end"
    )


def joined(lines: Sequence[Text]) -> Text:
    """Lines as one text."""
    from rich.text import Text

    return Text("\n", no_wrap=True).join(lines)
