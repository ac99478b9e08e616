"""What scheduling refuses, in one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from hostcc.errors import InputError

Item = TypeVar("Item")


class ViewError(InputError):
    """A ClusterView that makes no sense: `what: which: expected X, got Y`."""


class CycleError(InputError):
    """Priorities that contradict one another: a cycle in the contention graph."""


class OptionsError(InputError):
    """A setting of the scheduler that cannot be met."""


def twice(names: Iterable[Item]) -> Item:
    """The first of `names` that is there a second time."""
    seen: set[Item] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
