"""A benchmark's record as tables for a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.record import Cell, Column, Record, Spread, Verdict


def show(record: Record, console: Console) -> None:
    """Print the rows, the goals, what failed and the notes."""
    console.print(rows_table(record))
    if record.goals:
        console.print(goals_table(record.goals))
    for failure in record.failures:
        console.print(Text(f"not measured: {failure}", style="red"))
    for note in record.notes:
        console.print(Text(note))


def rows_table(record: Record) -> Table:
    """The measurements."""
    table = _table(record.title)
    for column in record.columns:
        side = "right" if _is_number(record, column) else "left"
        table.add_column(column.heading, justify=side, no_wrap=side == "right")  # type: ignore[arg-type]
    for row in record.rows:
        table.add_row(*(Text(cell(row.get(column.key), column)) for column in record.columns))
    return table


def goals_table(goals: list[Verdict]) -> Table:
    """Each goal, what was measured, how many runs meet it."""
    table = _table("goals")
    table.add_column("where", no_wrap=True)
    table.add_column("goal")
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for goal in goals:
        table.add_row(
            Text(goal.scope),
            Text(goal.goal),
            _spread(goal.measured, 3, 1.0),
            f"{goal.passing}/{len(goal.measured.values)}",
            Text("PASS", style="green") if goal.met else Text("FAIL", style="bold red"),
        )
    return table


def cell(value: Cell, column: Column) -> str:
    """One cell in words: the median with the range behind it where there are several runs."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, Spread):
        return _spread(value, column.digits, column.scale)
    return _number(value, column.digits, column.scale)


def _spread(value: Spread, digits: int, scale: float) -> str:
    middle = _number(value.median, digits, scale)
    if len(value.values) == 1:
        return middle
    least = _number(value.least, digits, scale)
    greatest = _number(value.greatest, digits, scale)
    return middle if least == greatest else f"{middle} ({least}..{greatest})"


def _number(value: float | None, digits: int, scale: float) -> str:
    return "never" if value is None else f"{value * scale:.{digits}f}"


def _is_number(record: Record, column: Column) -> bool:
    return not any(isinstance(row.get(column.key), str) for row in record.rows)


def _table(title: str) -> Table:
    return Table(
        title=Text(title),  # never markup
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
