"""Decides what to do with each large flow of this host, by the plan and its paths.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hostcc.model import PathTable
from hostcc.paths import choose

ON_PLAN, ON_ECMP, MOVING, ELSEWHERE = "planned", "ecmp", "moving", "elsewhere"
"""Where a flow is: on its planned path, where ECMP puts it, on its way, where a plan put it
that no longer says so."""


@dataclass(frozen=True)
class Situation:
    """One flow and the facts that decide about it."""

    planned: str
    """Id of the path that the plan gives it; empty: none."""
    table: PathTable | None
    own: str
    """Path of its own port; empty: unknown."""
    wire: str
    """Path of its port on the wire; the same as `own` while it has none."""
    port: int
    """Port on the wire; 0: its own."""
    moving: bool
    peer_gone: bool
    held_back: str = ""
    """Why it has to stay on ECMP for now."""
    moved_since: bool = False
    """The plan leaves it on the path that it was on in the plan's view, and it was moved since."""


@dataclass(frozen=True)
class Step:
    """The next action for a flow, and its state."""

    state: str
    why: str = ""
    """Why it is not on its planned path."""
    revert: bool = False
    port: int = 0
    """Port to move it to; 0: no move."""


def step(now: Situation, free: Callable[[int], bool], ports: tuple[int, int]) -> Step:
    """Decide the next step of a flow; `free(port)`: may it be taken; `ports`: (first, last)."""
    if why := _impossible(now):
        return Step(ON_ECMP, why, revert=bool(now.port or now.moving))
    if why := _left_alone(now):
        return Step(ELSEWHERE if now.port else ON_ECMP, why)
    if now.own == now.planned:
        return Step(ON_PLAN, revert=bool(now.port or now.moving))
    if now.port and now.wire == now.planned:
        return Step(ON_PLAN)
    if now.moving:
        return Step(MOVING)
    assert now.table is not None
    if now.planned not in {path.id for path in now.table.paths}:
        return Step(ON_ECMP, "the planned path is not among those found", revert=bool(now.port))
    port = choose.port_for(now.table, now.planned, free, *ports)
    if port:
        return Step(MOVING, port=port)
    return Step(ELSEWHERE if now.port else ON_ECMP, "no free source port of the planned path yet")


def _impossible(now: Situation) -> str:
    if now.peer_gone:
        return "the agent at the other end is gone"
    if now.held_back:
        return now.held_back
    return "" if now.table is not None else "its paths are not known"


def _left_alone(now: Situation) -> str:
    # Why a flow is not touched; empty: it is.
    if not now.planned:
        # An active flow stays until the plan that moved it is too old: see fallback.py.
        return "the plan does not name it"
    if now.moved_since and now.wire not in ("", now.planned):
        # Taken back it would make a view in which it is here again, while the plan of the view
        # in which it is there is on its way, and would send it there: to and fro for ever.
        return "the plan before this one has moved it"
    return ""


def new_connections(
    flows: Iterable[tuple[tuple[str, int], str, PathTable]],
    taken: frozenset[int],
    most: int,
    ports: tuple[int, int],
) -> Mapping[tuple[str, int], tuple[int, ...]]:
    """Return (destination, port) -> source ports for new connections there.

    `flows`: where each planned flow goes, its planned path, the table.  Where flows of several
    paths go to one port, the kernel chooses as always, and the flows are moved afterwards.
    """
    wanted: dict[tuple[str, int], set[str]] = {}
    tables: dict[tuple[str, int], PathTable] = {}
    for at, path, table in flows:
        wanted.setdefault(at, set()).add(path)
        tables[at] = table
    made = {}
    for at, paths in wanted.items():
        if len(paths) == 1:
            found = choose.new_ports(tables[at], next(iter(paths)), taken, most, *ports)
            if found:
                made[at] = found
    return made
