"""Decides when a host follows the plan of a view; a pure state machine.

A host follows at once when all live members that matter to it hold the same view. Otherwise it
follows after a timeout: plans are performance hints, so availability wins over consistency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Activation:
    """The decision to follow the plan of a view, or the news that the others now follow it too."""

    number: int
    """Sequence number of this host's activations, from 1."""
    digest: str
    at: float
    """Experienced seconds."""
    agreed: bool
    """False: the timeout passed first."""
    missing: tuple[str, ...] = ()
    """Members that matter and have not reported this view."""


@dataclass(frozen=True)
class Agreement:
    """Where a host stands: the view it holds and the view whose plan it follows."""

    held: str = ""
    """Digest of the view that it holds."""
    since: float = 0.0
    """Experienced seconds at which the held view was built."""
    pending: float = 0.0
    """Experienced seconds since which the held view has differed from the active one."""
    active: str = ""
    """Digest of the view whose plan it follows; empty: none, so defaults apply."""
    agreed: bool = False
    """Whether all members that matter held the active view at the same time."""
    missing: tuple[str, ...] = ()
    """Members that the host waits for, or waited for in vain."""
    number: int = 0


def step(
    state: Agreement,
    now: float,
    held: str,
    reports: Mapping[str, str],
    concerned: Iterable[str],
    wait_s: float,
) -> tuple[Agreement, Activation | None]:
    """Return the next state, and the activation if there is one.

    `held` is the digest of the host's own view, `reports` the digests that others reported.
    `concerned` are the live members that matter, `wait_s` is the timeout. A view that changes
    continually is activated after three timeouts, so that the host follows some plan.
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
