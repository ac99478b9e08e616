"""Works out the cluster's utilisation under the plan in force, seldom and in a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from hostcc.answers.links import OwnLink, ProfilingTurn, Utilisation
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.log import get_logger
from hostcc.model import JobProfile

if TYPE_CHECKING:
    from hostcc.schedule.problem import Floats

log = get_logger("plan")

REFRESH_S = 10.0
"""Between two looks at what was measured, seconds."""
MAX_TIME_FRACTION = 1 / 100
"""They take at most this share of wall time: after a long one the next comes later."""


@dataclass(frozen=True, eq=False)
class PlanFigures:
    """What follows from a plan alone."""

    made: PlanResult
    value: Floats
    """(J,) what a job's speed counts."""
    by_work: bool
    speed: Floats
    """(J,) predicted; NaN: unknown."""
    at_risk: int
    relieved: int
    links: tuple[OwnLink, ...]


def of_plan(made: PlanResult, host: str) -> PlanFigures:
    """Work out what follows from a plan; `host`: what it calls this host."""
    from hostcc.schedule import utilisation
    from hostcc.schedule.link_rows import own_links

    found = made.solution
    value, by_work = utilisation.values(found)
    speed, risky = utilisation.predicted_speeds(found), utilisation.at_risk(found)
    fine = utilisation.relieved(risky, speed)
    links = own_links(found, host)
    return PlanFigures(made, value, by_work, speed, int(risky.sum()), int(fine.sum()), links)


def with_measured(plan: PlanFigures, jobs: Sequence[JobProfile]) -> Utilisation:
    """Return all figures; `jobs`: the newest profiles."""
    from hostcc.schedule import utilisation

    measured = utilisation.measured_speeds(plan.made.solution, jobs)
    return Utilisation(
        predicted=utilisation.share(plan.value, plan.speed),
        predicted_jobs=int((plan.speed >= 0).sum()),
        measured=utilisation.share(plan.value, measured),
        measured_jobs=int((measured >= 0).sum()),
        by_work=plan.by_work,
        at_risk=plan.at_risk,
        relieved=plan.relieved,
        links=plan.links,
        age_s=0.0,
    )


def with_cost(plan: PlanFigures, turn: ProfilingTurn) -> ProfilingTurn:
    """Return a turn with what it cost the other jobs."""
    from hostcc.schedule import utilisation

    fallen = utilisation.losses_to_first(plan.made.solution, turn.job)
    if fallen is None:
        return turn
    lost_s = float(fallen.sum()) * turn.length_s
    lost_share = float(plan.value @ fallen) / max(float(plan.value.sum()), 1e-30)
    return msgspec.structs.replace(turn, lost_s=lost_s, lost_share=lost_share)


class ClusterFigures:
    """The latest figures; nothing is computed by whoever reads them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._plan: PlanFigures | None = None
        self._latest: tuple[float, Utilisation] | None = None
        """When it was worked out, seconds, and what."""
        self._turn: tuple[PlanResult, ProfilingTurn, ProfilingTurn] | None = None
        """A plan, a turn, and the same with its cost under that plan."""
        self._due = 0.0
        self._working: asyncio.Task[None] | None = None

    def follow(
        self,
        made: PlanResult | None,
        host: str,
        newest: Callable[[str], JobProfile | None],
        turn: ProfilingTurn | None = None,
    ) -> None:
        """Start working out new figures if they are due; `made` None: no plan holds.

        `newest`: the latest profile of a job.
        """
        if self._plan is not None and self._plan.made is not made:
            # Of thousands of jobs a plan takes megabytes; the latest figures stay.
            self._plan = self._turn = None
        if made is None:
            self.forget()
        elif self._clock() >= self._due and (self._working is None or self._working.done()):
            jobs = [one for job in made.solution.problem.job_ids if (one := newest(job))]
            work = self._work(made, host, jobs, turn)
            self._working = asyncio.get_running_loop().create_task(work)

    def latest(self) -> Utilisation | None:
        """Return the latest figures; None: no plan holds, or they are not ready yet."""
        if self._latest is None:
            return None
        at, found = self._latest
        return msgspec.structs.replace(found, age_s=self._clock() - at)

    def forget(self) -> None:
        """Have none until the next plan."""
        if self._working is not None:
            self._working.cancel()
        self._plan = self._latest = self._working = self._turn = None
        self._due = 0.0

    async def _work(
        self,
        made: PlanResult,
        host: str,
        jobs: Sequence[JobProfile],
        turn: ProfilingTurn | None,
    ) -> None:
        began = self._clock()
        self._due = began + REFRESH_S
        before, cost = self._plan, self._turn

        def work() -> tuple[PlanFigures, Utilisation]:
            nonlocal cost
            same = before is not None and before.made is made
            plan = before if same and before is not None else of_plan(made, host)
            found = with_measured(plan, jobs)
            if turn is None:
                return plan, found
            if cost is None or cost[0] is not made or cost[1] != turn:
                cost = made, turn, with_cost(plan, turn)
            return plan, msgspec.structs.replace(found, turn=cost[2])

        try:
            self._plan, found = await asyncio.to_thread(work)
            self._turn = cost
        except Exception as error:  # noqa: BLE001 - the last figures stay
            log.defect("utilisation could not be worked out", error)
            return
        now = self._clock()
        self._latest = now, found
        self._due = max(self._due, now + (now - began) / MAX_TIME_FRACTION)
