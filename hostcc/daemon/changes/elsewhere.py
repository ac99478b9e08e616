"""Changes in other namespaces: undone there, closed when they ended with their network namespace,
or set aside in the journal until a roll-back runs where they can be reached.

The `Scope` of a change says from where it can be reached.  DSCP marks are in sockets of any
namespace: see rollback.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.netns import in_netns
from hostcc.daemon.changes import hidden, kinds, netns_search
from hostcc.daemon.changes import path_kinds as paths
from hostcc.daemon.changes.journal import Journal, is_aside
from hostcc.daemon.changes.mechanisms import MECHANISMS, STEERING, Scope, undo
from hostcc.daemon.changes.netns_search import FIRST_PROCESS, NamespaceHandle, NamespaceState
from hostcc.daemon.changes.places import folder_of
from hostcc.errors import HostccError
from hostcc.mltcp.dcqcn import target_of
from hostcc.mltcp.dcqcn_knobs import Knobs
from hostcc.model import Change, Difference, Place

CGROUPS = (kinds.BASE, kinds.GROUP)
FIRST_NETWORK_NAMESPACE = FIRST_PROCESS / "ns/net"
"""Where a NIC goes when its namespace ends.  Without the right to enter it, the undoing is tried in
the namespace of the caller."""
GONE_WITH_NAMESPACE = "gone with its network namespace"


@dataclass
class Outcome:
    """What became of changes in other namespaces: ids, and problems in words."""

    undone: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Search:
    """Finds network namespaces, each once, and holds them open."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], NamespaceHandle] = {}

    def of(self, place: Place | None) -> NamespaceHandle:
        """Find the network namespace of a place; no place is here.  Raises OSError."""
        if place is None:
            return NamespaceHandle(NamespaceState.HERE)
        key = place.net, place.cookie
        if key not in self._found:
            self._found[key] = netns_search.find(place)
        return self._found[key]

    def close(self) -> None:
        """Close them."""
        for one in self._found.values():
            one.close()


@contextmanager
def search() -> Iterator[Search]:
    """Make a Search for the body, and close it."""
    made = Search()
    try:
        yield made
    finally:
        made.close()


def place_of(change: Change) -> Place | None:
    """Where a change is.  None: an older version wrote no place, so it is taken to be here."""
    after = change.after
    if change.place is None and change.what in STEERING and isinstance(after, dict):
        netns = after.get("netns")
        return Place(netns) if isinstance(netns, int) and not isinstance(netns, bool) else None
    return change.place


def undo_reachable(journal: Journal) -> Outcome:
    """Undo changes in other namespaces; those that cannot be reached are set aside in the journal.

    Changes here are left alone.  Blocks while it searches for namespaces and runs commands there.
    """
    outcome = Outcome()
    with search() as where:
        for change in reversed([*journal.active.values(), *journal.aside.values()]):
            try:
                _undo_where_it_is(change, journal, where, outcome)
            except (BpfError, HostccError, OSError) as error:
                _keep(change, str(error), journal, outcome)
    return outcome


def problems(journal: Journal) -> list[str]:
    """Word the changes that are set aside as problems of a roll-back."""
    return [
        f"{one.target}: it is in {_name(one)}: stop the agent and run hostcc rollback there"
        for one in journal.aside.values()
    ]


def differences(journal: Journal) -> list[Difference]:
    """Word them for `verify`: whether they are in force cannot be seen from here."""
    return [
        Difference(one.id, one.target, "to be reached", f"it is in {_name(one)}")
        for one in journal.aside.values()
    ]


def _undo_where_it_is(change: Change, journal: Journal, where: Search, outcome: Outcome) -> None:
    match _scope(change):
        case Scope.DIRECTORY:
            _in_folder(change, journal, outcome)
        case Scope.NIC_FILES:
            _rates(change, journal, where, outcome)
        case Scope.NETWORK | Scope.NIC:
            _in_network(change, journal, where, outcome)


def _scope(change: Change) -> Scope | None:
    """None: it ends with the agent, or is undone with a job's sockets."""
    if change.what in CGROUPS:
        return Scope.DIRECTORY
    known = MECHANISMS.get(change.what)
    return known.scope if known is not None else None


def _in_network(change: Change, journal: Journal, where: Search, outcome: Outcome) -> None:
    found = where.of(place_of(change))
    if found.state is NamespaceState.HIDDEN:
        _keep(change, _unseen(change), journal, outcome)
        return
    if found.state is NamespaceState.GONE and _scope(change) is Scope.NETWORK:
        outcome.gone.append(change.id)
        journal.undone([change.id], GONE_WITH_NAMESPACE)
        return
    if found.state is NamespaceState.HERE and not is_aside(change):
        return
    fd: int | Path | None = found.fd if found.state is NamespaceState.OTHER else None
    if found.state is NamespaceState.GONE and os.access(FIRST_NETWORK_NAMESPACE, os.R_OK):
        fd = FIRST_NETWORK_NAMESPACE
    _undo(change, journal, outcome, fd)


def _undo(
    change: Change, journal: Journal, outcome: Outcome, netns: int | Path | None = None
) -> None:
    """Undo it in a network namespace; None: that of the calling thread."""
    if why := in_netns(netns, partial(undo, change, journal)):
        _keep(change, why, journal, outcome)
        return
    outcome.undone.append(change.id)
    journal.undone([change.id], "rolled back")


def _rates(change: Change, journal: Journal, where: Search, outcome: Outcome) -> None:
    """Undo a NIC's parameter: a file, seen where the sysfs of its namespace is mounted."""
    place, port = place_of(change), target_of(change)[0]
    same_files = place is None or place.folder == folder_of(change.target)
    state = where.of(place).state
    if same_files or (state is NamespaceState.HERE and Knobs().read(port)):
        if not is_aside(change):
            return
    elif state is not NamespaceState.GONE:
        why = (
            _unseen(change)
            if state is NamespaceState.HIDDEN
            else f"run hostcc rollback in {_name(change)}"
        )
        _keep(change, why, journal, outcome)
        return
    _undo(change, journal, outcome)


def _in_folder(change: Change, journal: Journal, outcome: Outcome) -> None:
    why = hidden.reason(change)
    if why:
        _keep(change, why, journal, outcome)
    elif is_aside(change) and change.what in CGROUPS:
        journal.take_back(change)  # the steps for cgroups do the rest
    elif is_aside(change):
        _undo(change, journal, outcome)


def _keep(change: Change, why: str, journal: Journal, outcome: Outcome) -> None:
    outcome.problems.append(f"{change.target}: {why}")
    if not is_aside(change):
        journal.set_aside(replace(change, place=place_of(change)))


def _unseen(change: Change) -> str:
    return (
        f"it belongs to {_name(change)}, which no process here shows: "
        "run hostcc rollback where all processes of this host are seen"
    )


def _name(change: Change) -> str:
    place = place_of(change)
    if place is None:
        return "an unknown place"
    if _scope(change) is Scope.DIRECTORY:
        return f"mount namespace {place.mnt}"
    return f"network namespace {place.net}"


def marks_hidden(left: list[Change]) -> list[Change]:
    """Select the `job-mark` changes whose agent's network namespace cannot be seen from here."""
    with search() as where:
        return [
            one
            for one in left
            if one.what == paths.MARKS and where.of(place_of(one)).state is NamespaceState.HIDDEN
        ]
