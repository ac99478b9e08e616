"""Calls the scheduler for the gossip: options from the configuration, every failure with a reason.

Only imported where gossip is enabled: it loads the scheduler.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import compress

from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.errors import HostccError, one_line
from hostcc.model import ClusterView, Plan
from hostcc.schedule.parameters import WEIGHT
from hostcc.schedule.plan import Options, Solution, solve_for_agents
from hostcc.schedule.plan_writer import write_plan
from hostcc.system import malloc

KEPT_PLANS = 2
"""The plan in force and the one that was just made."""


def options(config: PlanConfig) -> Options:
    """Return what the operator decides."""
    return Options(
        levels=config.levels,
        reserved=tuple(sorted(set(config.reserved))),
        paths=config.paths,
        order=config.order,
        compression=config.compression,
        fairness=config.fairness,
        most_loss=config.loss_bound,
    )


class Planner:
    """Makes plans, and keeps the latest with what they were made from.

    Plans may be made in one thread while another calls `made`.  What the latest view has in common
    with the next one is reused (schedule.reuse).
    """

    def __init__(self, config: PlanConfig) -> None:
        self._options = options(config)
        self._enabled = config.enabled
        self._latest: deque[PlanResult] = deque(maxlen=KEPT_PLANS)
        self._view = ClusterView()
        """What the latest plan was made of, but for its digest."""
        if config.enabled:
            malloc.set_trim_threshold()

    def __call__(self, view: ClusterView) -> Plan:
        """Return the plan of a view; an empty one where planning is not enabled.

        Raises HostccError, whatever is wrong with the view.
        """
        if not self._enabled:
            return Plan(view.digest, reason="plan.enabled is false")
        try:
            made = self._made(view)
        except HostccError:
            raise
        except Exception as error:
            raise HostccError(f"no plan: {one_line(repr(error))}") from error
        self._latest.append(made)
        return made.plan

    def _made(self, view: ClusterView) -> PlanResult:
        while len(self._latest) >= KEPT_PLANS:
            # Its successor is in force, and another one is wanted: now memory is needed.
            self._latest.popleft()
        last, own = self._latest[-1] if self._latest else None, replace(view, digest="")
        if last is not None and own == self._view:
            return replace(last, plan=replace(last.plan, digest=view.digest))
        with malloc.gc_paused():
            before = None if last is None else last.solution
            found = solve_for_agents(view, self._options, before)
            made = _made(view, found, last)
        self._view = own
        return made

    def made(self, plan: Plan | None) -> PlanResult | None:
        """Return a plan with what it was made from; None if it is none of the KEPT_PLANS."""
        return next((made for made in list(self._latest) if made.plan is plan), None)


def _made(view: ClusterView, found: Solution, last: PlanResult | None) -> PlanResult:
    if last is None:
        plan = write_plan(view.digest, found)
    else:
        plan = write_plan(view.digest, found, last.solution, last.plan)
    problem = found.problem
    owners = dict(zip(problem.job_ids, problem.weight.tolist(), strict=True))
    weights = {one.job: dict(one.parameters).get(WEIGHT) for one in plan.jobs}
    factors = {
        job: weight / owners[job]
        for job, weight in weights.items()
        if weight is not None and owners[job] > 0
    }
    seen = {problem.job_ids[job] for job in set(problem.flow_job.tolist())}
    apart = zip(problem.job_ids, found.contenders.tolist(), strict=True)
    alone = {job for job, others in apart if not others and job in seen}
    blind = frozenset(problem.job_ids) - seen
    still = (problem.flow_path == found.decision.routing).tolist()
    stays = frozenset(compress(problem.flow_ids, still))
    return PlanResult(plan, found, factors, blind, frozenset(alone), stays, view.tables)
