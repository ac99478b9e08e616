"""Prepares for failures of links and switches whenever another plan holds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.steering import failover_moves
from hostcc.daemon.steering.failover_moves import Prepared
from hostcc.log import get_logger

log = get_logger("steering")


class FailoverTask:
    """Prepares in a thread for the plan that holds."""

    def __init__(self) -> None:
        self.prepared: Prepared = {}
        self.now: Mapping[str, str] = {}
        """Own flow -> path, because of what has failed; until the next plan."""
        self._made: PlanResult | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, made: PlanResult | None, own: str, kind: str = "") -> None:
        """Prepare for this plan; `own`, `kind`: see `failover_moves.prepare`."""
        if made is self._made or (self._task is not None and not self._task.done()):
            return
        if made is not None and self._made is not None and made.solution is self._made.solution:
            self._made = made
            return
        self._made, self.prepared, self.now = made, {}, {}
        if made is not None:
            self._task = asyncio.get_running_loop().create_task(self._prepare(made, own, kind))

    def paths(self, dead: frozenset[str], seen: frozenset[str]) -> Mapping[str, str]:
        """Return flow -> path where failed links make it differ from the plan.

        `dead`: links that seem to have failed; `seen`: all that this host knows of.
        """
        if dead and self.prepared:
            found = failover_moves.answer(self.prepared, dead, seen)
            if found and found != self.now:
                log.warning("prepared for this", links=" ".join(sorted(dead)), flows=len(found))
                self.now = found
        return self.now

    def end(self) -> None:
        """Forget the plan."""
        if self._task is not None:
            self._task.cancel()
        self._made, self._task, self.prepared, self.now = None, None, {}, {}

    async def _prepare(self, made: PlanResult, own: str, kind: str) -> None:
        problem, routing = made.solution.problem, made.solution.decision.routing
        try:
            self.prepared = await asyncio.to_thread(
                failover_moves.prepare, problem, routing, own, made.tables, kind
            )
        except Exception as error:  # noqa: BLE001 - without it the next plan comes later
            log.defect("looking ahead failed", error)
