"""Errors of the scheduler, each with a message of one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from hostcc.errors import InputError

Item = TypeVar("Item")


class ViewError(InputError):
    """An inconsistent ClusterView: `what: which: expected X, got Y`."""


class CycleError(InputError):
    """Priorities that contradict one another: a cycle in the contention graph."""


class OptionsError(InputError):
    """A scheduler option that cannot be satisfied."""


def first_duplicate(names: Iterable[Item]) -> Item:
    """Return the first of `names` that occurs a second time."""
    seen: set[Item] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
