"""What scheduling refuses, in one line."""

from __future__ import annotations

from hostcc.errors import InputError


class ViewError(InputError):
    """A ClusterView that makes no sense: `what: which: expected X, got Y`."""


class CycleError(InputError):
    """Priorities that contradict one another: a cycle in the contention graph."""


class OptionsError(InputError):
    """A setting of the scheduler that cannot be met."""
