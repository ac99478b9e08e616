"""Plans with what they were made from, and what the gossip has agreed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hostcc.answers.gossip import Disagreement
from hostcc.model import PathTable, Plan

if TYPE_CHECKING:
    from hostcc.coord.view import Snapshot
    from hostcc.schedule.plan import Solution


@dataclass(frozen=True, eq=False)
class PlanResult:
    """A plan with what it was made from; each is equal to itself only, as it holds arrays."""

    plan: Plan
    solution: Solution
    factors: Mapping[str, float] = field(default_factory=dict)
    """Job -> factor of its owner's weight."""
    blind: frozenset[str] = frozenset()
    """Jobs none of whose paths is known: their level means nothing."""
    alone: frozenset[str] = frozenset()
    """Jobs whose paths are known, and share no link that matters with another job's."""
    stays: frozenset[str] = frozenset()
    """Flows that the plan leaves on the path that they had in its view."""
    tables: tuple[PathTable, ...] = ()
    """Path tables of the view that it was made from."""


@dataclass(frozen=True)
class AgreementStatus:
    """What a member of the gossip holds, and which plan it is to follow."""

    held: str
    """Digest of the view that it holds."""
    active: str
    """Digest of the view whose plan it is to follow; empty: none yet."""
    agreed: bool
    """Whether the members that matter held that view, too, or are to follow the same plan; else it
    did not wait any longer."""
    missing: tuple[str, ...]
    """Members that it waits for, or has stopped waiting for."""
    number: int
    """How many views this member has activated."""
    made: PlanResult | None
    """The latest plan; None: there is none, or none could be made."""
    trouble: str = ""
    """Why there is no plan of the active view."""
    waits: bool = False
    """Whether the plan of the active view waits for processor time."""
    at: float = 0.0
    """When the gossip had its last round, CLOCK_MONOTONIC, seconds."""
    alone: bool = False
    """Whether no other member is known to be alive."""
    disagreements: tuple[Disagreement, ...] = ()
    """Options in which others' plans differ from this host's, whatever the view."""
    snapshot: Snapshot | None = None
    """The view that it holds, in parts; whole only when it is asked for."""
    differing: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Job of this host -> its other hosts that are to follow another plan -> seconds since when."""
    plans_agree: bool = False
    """Whether every live member that matters is to follow the latest plan, too."""
