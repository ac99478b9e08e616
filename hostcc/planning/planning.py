"""The agent's part that follows plans: which one holds, and the weights that it gives jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from hostcc.model import Difference, Plan
from hostcc.parts import Host
from hostcc.planning.following import Following, step
from hostcc.planning.standing import Made, Standing

TICK_S = 0.2


class Planning:
    """Follows the plan that the gossip has agreed on.

    `standing`: which one that is; None while this host does not gossip.
    """

    name = "plan"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        standing: Callable[[], Standing | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._standing = standing
        self._clock = clock
        self._following = Following()

    def off(self) -> str:
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

    def stop(self) -> None:
        """Follow none."""
        self._following = Following()
        self._weigh(None)

    def verify(self) -> list[Difference]:
        """Weights are the kernel backend's to check."""
        return []

    def view(self) -> Mapping[str, Any]:
        """Nothing beside what `hostcc plan` shows."""
        return {}

    def plan(self) -> Plan | None:
        """The plan that holds now; None: defaults."""
        made = self.made()
        return made.plan if made is not None else None

    def made(self) -> Made | None:
        """The same with what it was made from."""
        if self.off():
            return None
        config, now = self._host.config.plan, self._clock()
        self._following = step(self._following, now, self._standing(), config.max_age_s)
        return self._following.made

    def _weigh(self, made: Made | None) -> None:
        engine = self._host.engine
        if engine is not None:
            why = f"plan of view {made.plan.digest[:12]}" if made is not None else "no plan holds"
            engine.table.weigh(made.factors if made is not None else {}, why)
