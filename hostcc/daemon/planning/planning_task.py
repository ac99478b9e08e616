"""The agent's part that follows plans: which one holds, and the weights that it gives jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from operator import is_not
from typing import Any

import msgspec

from hostcc.daemon.jobs import views
from hostcc.daemon.planning import levels
from hostcc.daemon.planning.agreement_status import AgreementStatus, PlanResult
from hostcc.daemon.planning.following import FollowedPlan, step
from hostcc.daemon.supervisor import Host
from hostcc.errors import HostccError
from hostcc.model import Difference, Plan
from hostcc.system import malloc

TICK_S = 0.25
CALM_S = 5.0
"""Once a plan has been there for so long, memory that it took is given back."""


class Planning:
    """Follows the plan that the gossip has agreed on.

    `standing`: which one that is; None while this host does not gossip.
    """

    name = "plan"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        standing: Callable[[], AgreementStatus | None],
        clock: Callable[[], float] = time.monotonic,
        release: Callable[[], object] = malloc.release,
    ) -> None:
        self._host = host
        self._standing = standing
        self._clock = clock
        self._release = release
        self._released = ""
        """Digest of the plan after which that was done."""
        self._following = FollowedPlan()
        self._apart_by: tuple[object, ...] = (None, None, None)
        self._apart = frozenset[str]()
        """Jobs that share no queue, by that plan and configuration."""

    def disabled_reason(self) -> str:
        """Configured away?"""
        if not self._host.config.plan.enabled:
            return "plan.enabled is false"
        return "" if self._host.config.gossip.enabled else "gossip.enabled is false"

    def start(self) -> None:
        """The first tick does it."""

    async def tick(self) -> None:
        """Look which plan holds; give jobs its weights."""
        made = self.made()
        self._weigh(made)
        self._give_back(made)

    def stop(self) -> None:
        """Follow none."""
        self._following = FollowedPlan()
        self._weigh(None)

    def verify(self) -> list[Difference]:
        """Weights are the kernel backend's to check."""
        return []

    def view(self) -> Mapping[str, Any]:
        """How the plan stands, and what it says of this host's jobs."""
        made = self.made()
        return {"plan": {**self._state(), "jobs": self._jobs(made)}}

    def answer(self, explain: str | None) -> dict[str, Any]:
        """What `hostcc plan` shows.  Raises HostccError for a job that is in no plan."""
        made = self.made()
        shown = msgspec.to_builtins(made.plan if made is not None else Plan(""))
        answer = {"schema": views.PLAN, **shown, "state": self._state(), "explanation": None}
        if explain is not None:
            answer["explanation"] = self._explain(made, explain)
        return answer

    def plan(self) -> Plan | None:
        """The plan that holds now; None: defaults."""
        made = self.made()
        return made.plan if made is not None else None

    def made(self) -> PlanResult | None:
        """The same with what it was made from."""
        if self.disabled_reason():
            return None
        config, now = self._host.config.plan, self._clock()
        self._following = step(self._following, now, self._standing(), config.max_age_s)
        return self._following.made

    def _state(self) -> dict[str, Any]:
        """As of the last call of `made`."""
        standing, now, of = self._standing(), self._clock(), self._following
        there = of.made is not None
        return {
            "follows": of.digest if there else None,
            "reason": self.disabled_reason() or of.why or None,
            "held": standing.held if standing is not None else None,
            "active": standing.active if standing is not None else None,
            "agreed": standing.agreed if standing is not None else None,
            "alone": standing.alone if standing is not None else None,
            "missing": list(standing.missing) if standing is not None else [],
            "disagreements": [asdict(one) for one in standing.disagreements] if standing else [],
            "number": standing.number if standing is not None else 0,
            "age_s": now - of.current if there else None,
            "in_force_s": now - of.since if there else None,
        }

    def _jobs(self, made: PlanResult | None) -> list[dict[str, Any]]:
        engine, config = self._host.engine, self._host.config
        if made is None or engine is None:
            return []
        dscp = levels.marks(made, levels.table(config.plan, config.marking))
        table = engine.table
        return [
            {
                "name": one.job,
                "rank": one.rank,
                "level": one.level,
                "dscp": dscp.get(one.job) if config.marking.enabled else None,
                "weight": params.weight,
                "factor": made.factors.get(one.job, 1.0),
            }
            for one in made.plan.jobs
            if one.job in table.jobs and (params := table.jobs[one.job].params) is not None
        ]

    def _explain(self, made: PlanResult | None, job: str) -> dict[str, Any]:
        from hostcc.schedule.explain import explain

        if made is None:
            raise HostccError(f"no plan: {self.disabled_reason() or self._following.why}")
        shown: dict[str, Any] = msgspec.to_builtins(explain(made.solution, job))
        return shown

    def _give_back(self, made: PlanResult | None) -> None:
        of = self._following
        if made is None or of.digest == self._released or self._clock() - of.since < CALM_S:
            return
        self._released = of.digest
        if len(made.plan.jobs) < malloc.MANY:
            self._release()

    def _weigh(self, made: PlanResult | None) -> None:
        engine = self._host.engine
        if engine is not None:
            why = f"plan of view {made.plan.digest[:12]}" if made is not None else "no plan holds"
            if made is None:
                engine.table.weigh({}, why)
            else:
                engine.table.weigh(made.factors, why, self._undisturbed(made))

    def _undisturbed(self, made: PlanResult) -> frozenset[str]:
        """Jobs that share no queue: no link, or none with their mark where traffic is marked."""
        config = self._host.config
        if not config.marking.enabled:
            return made.alone
        by = made, config.plan, config.marking
        if any(map(is_not, by, self._apart_by)):
            table = levels.table(config.plan, config.marking)
            self._apart_by, self._apart = by, made.alone | levels.unrivalled(made, table)
        return self._apart
