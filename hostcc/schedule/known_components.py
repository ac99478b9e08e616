"""Remembers the schedules of components, for who plans a cluster as it comes and goes again.

Jobs leave and others come, and often the same ones are together again. A component's schedule is a
function of its problem and of the options, so a remembered one equals one computed anew.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

from hostcc.schedule.coupling import equal
from hostcc.schedule.problem import Problem

MOST = 512
"""Schedules that are remembered, those used last."""


class OfProblem(Protocol):
    """What belongs to a problem."""

    @property
    def problem(self) -> Problem:
        """The problem."""


Schedule = TypeVar("Schedule", bound=OfProblem)
_Key = tuple[tuple[str, ...], int, bytes]


class KnownComponents(Generic[Schedule]):
    """Schedules by problem, all with the same options."""

    def __init__(self, most: int = MOST) -> None:
        """Remember up to so many."""
        self._most = most
        self._found: OrderedDict[_Key, Schedule] = OrderedDict()

    def get(self, problem: Problem) -> Schedule | None:
        """Return the schedule of an equal problem; None: it is not known."""
        found = self._found.get(_key(problem))
        if found is None or not equal(found.problem, problem):
            return None
        self._found.move_to_end(_key(problem))
        return found

    def add(self, found: Schedule) -> Schedule:
        """Remember and return a schedule; the one not used for longest is forgotten."""
        key = _key(found.problem)
        self._found[key] = found
        self._found.move_to_end(key)
        while len(self._found) > self._most:
            self._found.popitem(last=False)
        return found


def _key(problem: Problem) -> _Key:
    return problem.job_ids, problem.link_count, problem.flow_path.tobytes()
