"""The plan that is in force on this host: read by all parts that act on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, Protocol

from hostcc.daemon.planning.agreement_status import AgreementStatus, PlanResult
from hostcc.daemon.planning.following import FollowedPlan, step
from hostcc.daemon.supervisor import Host
from hostcc.model import Plan

Act = Literal["weights", "marks", "paths"]
"""What parts of the agent do by a plan; `plan.act_on_*` says when."""
ACTS: tuple[Act, ...] = ("weights", "marks", "paths")


class Membership(Protocol):
    """This host as a member of the gossip; `gossip.cluster.Cluster` in an agent."""

    @property
    def name(self) -> str:
        """What plans call this host; empty while it does not take part."""

    def agreement(self) -> AgreementStatus | None:
        """Return which plan this host is to follow; None while it does not take part."""


class PlanStore:
    """Which plan is in force, and what this host is called in it.

    The gossip agrees on plans; one is in force until there is another, or it is older than
    `plan.max_age_s`.  Whoever reads gets it as of now.  An act may wait for the neighbours to have
    the plan, too; until then it is by the last plan that they had.
    """

    def __init__(
        self,
        host: Host,
        membership: Membership,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._membership, self._clock = host, membership, clock
        self.followed = FollowedPlan()
        """How the latest plan stands, as of the last reading."""

    @property
    def member(self) -> str:
        """What plans call this host; empty while it does not take part."""
        return self._membership.name

    def disabled_reason(self) -> str:
        """Return the key that keeps this host from following plans, if one does."""
        if not self._host.config.plan.enabled:
            return "plan.enabled is false"
        return "" if self._host.config.gossip.enabled else "gossip.enabled is false"

    def current(self, act: Act | None = None) -> PlanResult | None:
        """Return the plan in force with what it was made from; None: defaults apply.

        `act`: the plan for that, which may be an earlier one.
        """
        if self.disabled_reason():
            return None
        config = self._host.config.plan
        self.followed = step(self.followed, self._clock(), self.agreement(), config.max_age_s)
        waits = {
            None: "timeout",
            "weights": config.act_on_weights,
            "marks": config.act_on_marks,
            "paths": config.act_on_paths,
        }
        if waits[act] == "agreed":
            return self.followed.agreed.result
        return self.followed.made

    def plan(self, act: Act | None = None) -> Plan | None:
        """Return the plan in force, or that for an act; None: defaults apply."""
        result = self.current(act)
        return result.plan if result is not None else None

    def agreement(self) -> AgreementStatus | None:
        """Return what the gossip has agreed on; None while this host does not take part."""
        return self._membership.agreement()

    def forget(self) -> None:
        """Follow none until the next reading."""
        self.followed = FollowedPlan()
