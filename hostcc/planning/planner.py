"""The scheduler as the gossip calls it: options from the configuration, every failure named.

Only imported where gossip is enabled: it loads the scheduler.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from hostcc.errors import HostccError, one_line
from hostcc.model import ClusterView, Plan
from hostcc.planning.apart import apart
from hostcc.planning.standing import Made
from hostcc.schedule.parameters import WEIGHT
from hostcc.schedule.plan import DEFAULT, Moved, Options, Solution, solve, written
from hostcc.sections.plan import PlanConfig

KEPT = 2
"""Plans: the one in force and the one that was just made."""


def options(config: PlanConfig) -> Options:
    """What the operator decides."""
    return Options(
        levels=config.levels,
        reserved=tuple(sorted(set(config.reserved))),
        paths=config.paths,
        order=config.order,
        compression=config.compression,
        fairness=config.fairness,
        most_loss=config.loss_bound,
    )


def rules(version: str, config: PlanConfig) -> str:
    """Everything but the view that plans depend on; hosts agree only if it is the same."""
    return f"hostcc {version} {options(config)}"


def solved(view: ClusterView, options: Options, before: Solution | None = None) -> Solution:
    """The schedule of a view, where flows share links only if they have to (apart.py).

    What the view has in common with that of `before` is not found again.  Raises ViewError and
    OptionsError.
    """
    found = solve(view, options, before)
    if options.paths != DEFAULT:
        return found
    problem, first = found.problem, found.decision
    moved = apart(problem, first.routing)
    if not moved:
        return found
    routing = first.routing.copy()
    routing[list(moved)] = list(moved.values())
    paths = dict(zip(problem.flow_ids, (problem.path_ids[way] for way in routing), strict=True))
    flows = tuple(replace(flow, path=paths.get(flow.id, flow.path)) for flow in view.flows)
    again = solve(replace(view, flows=flows), replace(options, paths="stay"), found)
    kept = [one for one in first.moved if not moved.keys() & set(one.flows)]
    leaving = [flow for flow in moved if problem.flow_path[flow] >= 0]
    decision = replace(
        again.decision,
        how=f"{first.how}; {len(moved)} flows get paths of their own; {again.decision.how}",
        moved=(*kept, *(Moved((flow,), "a path of its own") for flow in leaving)),
    )
    return replace(again, reading=found.reading, options=options, decision=decision)


class Planner:
    """Makes plans, and keeps the latest with what they were made from.

    A plan may be made in another thread than `made` is asked in.  What the latest has in common
    with the next view is not found again (schedule.reuse).
    """

    def __init__(self, config: PlanConfig) -> None:
        self._options = options(config)
        self._enabled = config.enabled
        self._latest: deque[Made] = deque(maxlen=KEPT)

    def __call__(self, view: ClusterView) -> Plan:
        """The plan of a view; one without content where planning is not enabled.

        Raises HostccError, whatever is wrong with the view.
        """
        if not self._enabled:
            return Plan(view.digest, reason="plan.enabled is false")
        try:
            last = self._latest[-1] if self._latest else None
            found = solved(view, self._options, None if last is None else last.solution)
            made = _made(view, found, last)
        except HostccError:
            raise
        except Exception as error:
            raise HostccError(f"no plan: {one_line(repr(error))}") from error
        self._latest.append(made)
        return made.plan

    def made(self, plan: Plan | None) -> Made | None:
        """What a plan was made from; None if it is none of the latest."""
        return next((made for made in list(self._latest) if made.plan is plan), None)


def _made(view: ClusterView, found: Solution, last: Made | None) -> Made:
    if last is None:
        plan = written(view.digest, found)
    else:
        plan = written(view.digest, found, last.solution, last.plan)
    problem = found.problem
    owners = dict(zip(problem.job_ids, problem.weight.tolist(), strict=True))
    weights = {one.job: dict(one.parameters).get(WEIGHT) for one in plan.jobs}
    factors = {
        job: weight / owners[job]
        for job, weight in weights.items()
        if weight is not None and owners[job] > 0
    }
    seen = {problem.job_ids[job] for job in set(problem.flow_job.tolist())}
    apart = zip(problem.job_ids, found.contenders().tolist(), strict=True)
    alone = {job for job, others in apart if not others and job in seen}
    blind = frozenset(problem.job_ids) - seen
    return Made(plan, found, factors, blind, frozenset(alone), view.tables)
