"""When a host follows the plan of a view: a pure state machine.

At once when the live members that matter to it hold the same view, after a while in any case:
plans are hints for performance, so going on beats waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Activation:
    """From now on a host follows the plan of a view, or: others now follow it, too."""

    number: int
    """Counts those of this host."""
    digest: str
    at: float
    agreed: bool
    """False: the wait was over."""
    missing: tuple[str, ...] = ()
    """Members that matter and did not report this view."""


@dataclass(frozen=True)
class Agreement:
    """Where a host stands."""

    held: str = ""
    """Digest of the view that it holds."""
    since: float = 0.0
    """From when it has held that."""
    pending: float = 0.0
    """From when the held view has not been the active one."""
    active: str = ""
    """Digest of the view whose plan it follows; empty: none, defaults are in force."""
    agreed: bool = False
    """Whether those that matter held the active view at the same time."""
    missing: tuple[str, ...] = ()
    """Whom it waits for, or has stopped waiting for."""
    number: int = 0


def step(
    state: Agreement,
    now: float,
    held: str,
    reports: Mapping[str, str],
    concerned: Iterable[str],
    wait_s: float,
) -> tuple[Agreement, Activation | None]:
    """The state after looking at what is held (a digest) and what others report.

    `concerned` are the live members that matter.  A view that keeps changing is activated
    after three times the wait: it must not keep the host from following any.
    """
    if held != state.held:
        pending = now if state.held == state.active else state.pending
        state = replace(state, held=held, since=now, pending=pending)
    missing = tuple(member for member in concerned if reports.get(member) != held)
    state = replace(state, missing=missing)
    if held == state.active:
        if state.agreed or missing:
            return state, None
        return _activate(state, now, agreed=True)
    if not missing:
        return _activate(state, now, agreed=True)
    if now - state.since >= wait_s or now - state.pending >= 3 * wait_s:
        return _activate(state, now, agreed=False)
    return state, None


def _activate(state: Agreement, now: float, *, agreed: bool) -> tuple[Agreement, Activation]:
    number = state.number + 1
    state = replace(state, active=state.held, agreed=agreed, number=number, pending=now)
    return state, Activation(number, state.held, now, agreed, state.missing)
