"""Context of every benchmark: folder of the results, number of runs, progress display."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

Tell = Callable[[str, float, float], None]
"""Progress: what is running, how much is done, of how much."""


@dataclass(frozen=True)
class Context:
    """The options that all benchmarks share."""

    runs: int
    out: Path | None
    """Where cases, the record and plots go; None: nothing is kept."""
    fresh: bool = False
    """Measure again what is there already."""
    report_only: bool = False
    """Measure nothing: the record of what is there."""
    tell: Tell = lambda *_: None
    say: Callable[[str], None] = lambda _: None
    """A line for whoever reads a log."""


@contextmanager
def progress() -> Iterator[Tell]:
    """A progress bar on a terminal, silence elsewhere."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
    ) as bar:
        task = bar.add_task("", total=None)

        def tell(what: str, done: float, total: float) -> None:
            bar.update(task, description=what, completed=min(done, total), total=total)

        yield tell
