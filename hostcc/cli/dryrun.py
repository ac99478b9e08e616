"""`hostcc agent --dry-run`: the changes that an agent would make here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

from hostcc.cli.common import emit, print_json, table
from hostcc.config.schema import Config
from hostcc.daemon import preflight
from hostcc.daemon.changes.journal import Journal, change_json
from hostcc.daemon.enforcement import plan
from hostcc.daemon.marking.planned import by_plans
from hostcc.daemon.steering.steering_parts import planned as paths
from hostcc.errors import Exit, HostccError
from hostcc.foreign import say
from hostcc.model import Change
from hostcc.system.cgroups import CgroupTree, resolve_root

SCHEMA = "hostcc.dry-run/1"
WIDEST = 120
"""Characters of one value of a change."""


def show(config: Config, as_json: bool) -> int:
    """Print them; nothing is changed."""
    problems = preflight.missing(config.agent.cgroup_root)
    planned: list[Change] = []
    if not config.agent.observe_only and not any("cgroup" in text for text in problems):
        tree = CgroupTree(resolve_root(config.agent.cgroup_root))
        planned = plan(config, tree, left(Path(config.agent.run_dir)))
        later, trouble = by_plans(config)
        planned += later
        problems += trouble
        planned += paths(config.paths)
    rows = [without_time(change) for change in planned]
    if as_json:
        print_json({"schema": SCHEMA, "changes": rows, "missing": problems})
        return Exit.OK
    for problem in problems:
        say(f"hostcc agent: it could not make these changes without {problem}", file=sys.stderr)
    if not rows:
        say("nothing would be changed")
        return Exit.OK
    emit(changes_table(rows))
    return Exit.OK


def left(run_dir: Path) -> Mapping[str, Change]:
    """Changes that an earlier agent has left behind; none for whoever may not know them."""
    try:
        return Journal(run_dir).active
    except HostccError:
        return {}


def without_time(change: Change) -> dict[str, Any]:
    """A planned change: it has neither time nor place yet."""
    shown = change_json(change)
    del shown["at"], shown["place"]
    return shown


def changes_table(rows: list[dict[str, Any]]) -> Any:
    """Changes as a table."""
    columns = [(name, "left") for name in ("Change", "Target", "From", "To", "Why", "Undo")]
    return table(
        columns,
        (
            (
                row["id"],
                row["target"],
                words(row["from"]),
                words(row["to"]),
                row["why"],
                row["undo"],
            )
            for row in rows
        ),
    )


def words(value: object) -> str:
    """A Change's from or to, for people."""
    if isinstance(value, Mapping):
        shown = {key: str(item) for key, item in value.items() if item is not None}
        return ", ".join(f"{key} {shorten(text, WIDEST)}" for key, text in shown.items())
    return "-" if value is None else str(value)
