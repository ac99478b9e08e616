"""The agent's part that gives jobs the weights of the plan in force, and shows that plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from operator import is_not

import msgspec

from hostcc.answers.links import Links, ProfilingTurn
from hostcc.answers.plan import Explanation, PlanAnswer
from hostcc.answers.plan_status import PlannedJob, PlanState, PlanStatus
from hostcc.answers.view import View
from hostcc.daemon.planning import levels
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.planning.cluster_figures import ClusterFigures
from hostcc.daemon.planning.plan_differences import differences
from hostcc.daemon.planning.plan_store import ACTS, PlanStore
from hostcc.daemon.planning.view_export import exported
from hostcc.daemon.supervisor import Host, WithBlock, in_thread
from hostcc.errors import HostccError
from hostcc.model import Difference, JobProfile, Plan
from hostcc.system import malloc

TICK_S = 0.25
RELEASE_AFTER_S = 5.0
"""A plan's memory is given back to the system once the plan has been there for so long."""


class Planning:
    """Gives this host's jobs the weights of the plan in force."""

    name = "plan"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        plans: PlanStore,
        clock: Callable[[], float] = time.monotonic,
        release: Callable[[], object] = malloc.release,
        last_turn: Callable[[], ProfilingTurn | None] = lambda: None,
    ) -> None:
        """`last_turn`: the profiling turn that ended last on this host."""
        self._host, self._plans = host, plans
        self._last_turn = last_turn
        self._clock = clock
        self._release = release
        self._released = ""
        """Digest of the last plan after which memory was given back."""
        self._apart_by: tuple[object, ...] = (None, None, None)
        """What `_apart` was made from: plan, and the sections of the configuration."""
        self._apart = frozenset[str]()
        """Jobs that share no queue."""
        self._figures = ClusterFigures(clock)

    def disabled_reason(self) -> str:
        """Return the key that keeps this host from following plans, if one does."""
        return self._plans.disabled_reason()

    def start(self) -> None:
        """Do nothing: the first tick applies the plan."""

    async def tick(self) -> None:
        """Give jobs the weights of the plan in force."""
        made = self._plans.current()
        self._weigh(self._plans.current("weights"))
        self._give_back(made)
        self._figures.follow(made, self._plans.member, self._newest, self._last_turn())

    def stop(self) -> None:
        """Take the plan's weights back."""
        self._plans.forget()
        self._figures.forget()
        self._weigh(None)

    def verify(self) -> list[Difference]:
        """Find nothing: weights are checked by the engine."""
        return []

    def view(self) -> WithBlock[PlanStatus]:
        """Show how the plan stands, and what it says of this host's jobs."""
        made = self._plans.current()
        state = msgspec.structs.asdict(self._state())
        cluster = self._figures.latest() if made is not None else None
        return WithBlock(PlanStatus(**state, jobs=tuple(self._jobs(made)), cluster=cluster))

    def answer(self, explain: str | None) -> PlanAnswer:
        """Answer `hostcc plan`.  Raises HostccError for a job that is in no plan."""
        made = self._plans.current()
        plan = made.plan if made is not None else Plan("")
        return PlanAnswer(
            digest=plan.digest,
            jobs=plan.jobs,
            flows=plan.flows,
            reason=plan.reason,
            state=self._state(),
            explanation=self._explain(explain) if explain is not None else None,
        )

    async def links(self, job: str | None, limit: int, *, every: bool) -> Links:
        """Answer `hostcc links`.  Raises HostccError without a plan, and for an unknown job."""
        from hostcc.schedule.link_rows import list_links

        made = self._in_force()
        work = partial(list_links, made.solution, made.plan.digest, limit, job, every=every)
        return await in_thread(work)

    async def exported(self) -> View:
        """Answer `hostcc view`.  Raises HostccError where this host holds none."""
        made, standing = self._plans.current(), self._plans.agreement()
        if standing is None or standing.snapshot is None or not standing.snapshot.digest:
            raise HostccError(f"no view: {self.disabled_reason() or self._plans.followed.why}")
        view, config = standing.snapshot.view, self._host.config.plan
        in_force = made is not None and made.plan.digest == view.digest
        return await in_thread(partial(exported, view, config, in_force=in_force))

    def _state(self) -> PlanState:
        standing, now, of = self._plans.agreement(), self._clock(), self._plans.followed
        there = of.made is not None
        return PlanState(
            follows=of.digest if there else None,
            reason=self.disabled_reason() or of.why or None,
            held=standing.held if standing is not None else None,
            active=standing.active if standing is not None else None,
            agreed=standing.agreed if standing is not None else None,
            alone=standing.alone if standing is not None else None,
            missing=standing.missing if standing is not None else (),
            disagreements=standing.disagreements if standing is not None else (),
            differing=differences(standing, of, now, self._host.config.plan.max_age_s),
            acts={
                act: plan.digest if (plan := self._plans.plan(act)) is not None else None
                for act in ACTS
            },
            number=standing.number if standing is not None else 0,
            age_s=now - of.current if there else None,
            in_force_s=now - of.since if there else None,
        )

    def _newest(self, job: str) -> JobProfile | None:
        """Return what the view that this host holds says of a job."""
        standing = self._plans.agreement()
        if standing is None or standing.snapshot is None:
            return None
        return standing.snapshot.job(job)

    def _jobs(self, made: PlanResult | None) -> list[PlannedJob]:
        engine, config = self._host.engine, self._host.config
        if made is None or engine is None:
            return []
        dscp = levels.marks(made, levels.table(config.plan, config.marking))
        table, problem = engine.table, made.solution.problem
        place = {job: at for at, job in enumerate(problem.job_ids)}
        return [
            PlannedJob(
                name=one.job,
                rank=one.rank,
                level=one.level,
                dscp=dscp.get(one.job) if config.marking.enabled else None,
                weight=params.weight,
                factor=made.factors.get(one.job, 1.0),
                work=float(problem.work[place[one.job]]),
                work_assumed=problem.assumed[place[one.job]] or None,
            )
            for one in made.plan.jobs
            if one.job in table.jobs and (params := table.jobs[one.job].params) is not None
        ]

    def _in_force(self) -> PlanResult:
        """Return the plan in force.  Raises HostccError, which says why there is none."""
        made = self._plans.current()
        if made is None:
            raise HostccError(f"no plan: {self.disabled_reason() or self._plans.followed.why}")
        return made

    def _explain(self, job: str) -> Explanation:
        from hostcc.schedule.explain import explain

        return explain(self._in_force().solution, job)

    def _give_back(self, made: PlanResult | None) -> None:
        of = self._plans.followed
        if (
            made is None
            or of.digest == self._released
            or self._clock() - of.since < RELEASE_AFTER_S
        ):
            return
        first, self._released = not self._released, of.digest
        # After the first plan much is free that only the start has needed.
        if first or len(made.plan.jobs) < malloc.KEEP_FROM_JOBS:
            self._release()

    def _weigh(self, made: PlanResult | None) -> None:
        engine = self._host.engine
        if engine is not None:
            why = f"plan of view {made.plan.digest[:12]}" if made is not None else "no plan holds"
            if made is None:
                engine.table.set_plan_factors({}, why)
            else:
                engine.table.set_plan_factors(made.factors, why, self._undisturbed(made))

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
