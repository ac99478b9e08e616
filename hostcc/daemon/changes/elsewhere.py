"""Changes that are not where this process is: undone there, closed when they went with their
network namespace, or kept apart until somebody comes who can reach them.

    in a network namespace    queues, steering's hooks and reserved ports
    of hardware               counters and rate parameters of RDMA ports: when a namespace ends, its
                              devices go back to the first one, as they are
    in a directory            cgroups and shared memory: seen where that directory is
    of sockets                marks: of a job's processes in whatever namespace, see rollback.py
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
from hostcc.daemon.changes.netns_search import FIRST_PROCESS, Found, State
from hostcc.daemon.changes.places import folder_of
from hostcc.errors import HostccError
from hostcc.mltcp.dcqcn import target_of
from hostcc.mltcp.dcqcn_knobs import Knobs
from hostcc.model import Change, Difference, Place

CGROUPS = (kinds.BASE, kinds.GROUP)
FIRST = FIRST_PROCESS / "ns/net"
"""Where hardware goes when its namespace ends; who may not enter it tries where they are."""
GONE = "gone with its network namespace"


@dataclass
class Outcome:
    """What became of changes that are elsewhere: ids, and words."""

    undone: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Search:
    """Network namespaces, each looked for once."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], Found] = {}

    def of(self, place: Place | None) -> Found:
        """Where a place's network namespace is; that of no place is here.  Raises OSError."""
        if place is None:
            return Found(State.HERE)
        key = place.net, place.cookie
        if key not in self._found:
            self._found[key] = netns_search.find(place)
        return self._found[key]

    def close(self) -> None:
        """Let go of them."""
        for one in self._found.values():
            one.close()


@contextmanager
def search() -> Iterator[Search]:
    """A Search for the body."""
    made = Search()
    try:
        yield made
    finally:
        made.close()


def place_of(change: Change) -> Place | None:
    """Where a change is; None: its record is older than such words, so where its reader is."""
    after = change.after
    if change.place is None and change.what in STEERING and isinstance(after, dict):
        netns = after.get("netns")
        return Place(netns) if isinstance(netns, int) and not isinstance(netns, bool) else None
    return change.place


def settle(journal: Journal) -> Outcome:
    """Undo what is elsewhere; what cannot be reached is set aside in the journal.

    Leaves alone what is here.  Takes its time where something is elsewhere.
    """
    outcome = Outcome()
    with search() as where:
        for change in reversed([*journal.active.values(), *journal.aside.values()]):
            try:
                _settle(change, journal, where, outcome)
            except (BpfError, HostccError, OSError) as error:
                _keep(change, str(error), journal, outcome)
    return outcome


def words(journal: Journal) -> list[str]:
    """What is set aside, as problems of a roll-back."""
    return [
        f"{one.target}: it is in {_name(one)}: stop the agent and run hostcc rollback there"
        for one in journal.aside.values()
    ]


def differences(journal: Journal) -> list[Difference]:
    """The same as `verify` says it: nobody can tell whether those are in force."""
    return [
        Difference(one.id, one.target, "to be reached", f"it is in {_name(one)}")
        for one in journal.aside.values()
    ]


def _settle(change: Change, journal: Journal, where: Search, outcome: Outcome) -> None:
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
    if found.state is State.HIDDEN:
        _keep(change, _unseen(change), journal, outcome)
        return
    if found.state is State.GONE and _scope(change) is Scope.NETWORK:
        outcome.gone.append(change.id)
        journal.undone([change.id], GONE)
        return
    if found.state is State.HERE and not is_aside(change):
        return
    fd: int | Path | None = found.fd if found.state is State.OTHER else None
    if found.state is State.GONE and os.access(FIRST, os.R_OK):
        fd = FIRST
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
    """A NIC's parameters are files, and seen where its namespace's sysfs is."""
    place, port = place_of(change), target_of(change)[0]
    same_files = place is None or place.folder == folder_of(change.target)
    state = where.of(place).state
    if same_files or (state is State.HERE and Knobs().read(port)):
        if not is_aside(change):
            return
    elif state is not State.GONE:
        why = (
            _unseen(change) if state is State.HIDDEN else f"run hostcc rollback in {_name(change)}"
        )
        _keep(change, why, journal, outcome)
        return
    _undo(change, journal, outcome)


def _in_folder(change: Change, journal: Journal, outcome: Outcome) -> None:
    why = hidden.why(change)
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
    """Those `job-mark` changes of agents whose network namespace cannot be seen from here."""
    with search() as where:
        return [
            one
            for one in left
            if one.what == paths.MARKS and where.of(place_of(one)).state is State.HIDDEN
        ]
