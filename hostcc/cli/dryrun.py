"""`hostcc agent --dry-run`: the changes that an agent would make here."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

from msgspec import to_builtins

from hostcc.answers.host import ChangeRow
from hostcc.cli.common import emit, print_json, table
from hostcc.config.schema import Config
from hostcc.daemon.changes.journal import row_of
from hostcc.daemon.dry_run import planned
from hostcc.daemon.hold import HoldFile
from hostcc.errors import Exit
from hostcc.foreign import say

SCHEMA = "hostcc.dry-run/1"
WIDEST = 120
"""Characters of one value of a change."""


def show(config: Config, as_json: bool) -> int:
    """Print them; nothing is changed."""
    held = HoldFile(Path(config.agent.run_dir)).read()  # says so, too
    changes, problems = planned(config)
    rows = [row_of(change) for change in changes]
    if as_json:
        shown = [without_time(row) for row in rows]
        line = held.line() if held is not None else None
        print_json({"schema": SCHEMA, "changes": shown, "missing": problems, "held": line})
        return Exit.OK
    for problem in problems:
        say(f"hostcc agent: it could not make these changes without {problem}", file=sys.stderr)
    if not rows:
        say("nothing would be changed")
        return Exit.OK
    emit(changes_table(rows))
    return Exit.OK


def without_time(row: ChangeRow) -> dict[str, Any]:
    """A planned change: it has neither time nor place yet."""
    shown: dict[str, Any] = to_builtins(row)
    del shown["at"], shown["place"]
    return shown


def changes_table(rows: Iterable[ChangeRow]) -> Any:
    """Changes as a table."""
    columns = [(name, "left") for name in ("Change", "Target", "From", "To", "Why", "Undo")]
    return table(
        columns,
        (
            (row.id, row.target, words(row.before), words(row.after), row.why, row.undo)
            for row in rows
        ),
    )


def words(value: object) -> str:
    """A Change's from or to, for people."""
    if isinstance(value, Mapping):
        shown = {key: str(item) for key, item in value.items() if item is not None}
        return ", ".join(f"{key} {shorten(text, WIDEST)}" for key, text in shown.items())
    return "-" if value is None else str(value)
