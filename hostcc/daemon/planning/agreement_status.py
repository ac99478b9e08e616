"""Which plan a host is to follow, as the gossip has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hostcc.model import PathTable, Plan

if TYPE_CHECKING:
    from hostcc.daemon.planning.rules import Disagreement
    from hostcc.schedule.plan import Solution


@dataclass(frozen=True)
class PlanResult:
    """A plan with what it was made from."""

    plan: Plan
    solution: Solution
    factors: Mapping[str, float] = field(default_factory=dict)
    """Job -> what the plan multiplies its owner's weight by."""
    blind: frozenset[str] = frozenset()
    """Jobs of whose traffic no path is known: their level means nothing."""
    alone: frozenset[str] = frozenset()
    """Jobs whose traffic is known, and shares no link that matters with another's."""
    stays: frozenset[str] = frozenset()
    """Flows that it leaves on the path that they were on in its view."""
    tables: tuple[PathTable, ...] = ()
    """Paths of the view that it was made from."""


@dataclass(frozen=True)
class AgreementStatus:
    """Where a member of the gossip stands now."""

    held: str
    """Digest of the view that it holds."""
    active: str
    """Digest of the view whose plan it is to follow; empty: none yet."""
    agreed: bool
    """Whether the members that matter held that view, too; else it has waited long enough."""
    missing: tuple[str, ...]
    """Whom it waits for, or has stopped waiting for."""
    number: int
    """Counts the activations of this member."""
    made: PlanResult | None
    """The latest plan; None: there is none, or none could be made."""
    trouble: str = ""
    """Why there is no plan of the active view."""
    at: float = 0.0
    """When the gossip had its last round, CLOCK_MONOTONIC, seconds."""
    alone: bool = False
    """Whether no other member is known to live: agreement is with nobody."""
    disagreements: tuple[Disagreement, ...] = ()
    """In what others' plans differ from this host's, whatever the view."""
