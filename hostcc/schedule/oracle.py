"""Values of priority levels in small problems, from the fluid simulation, cached by component."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hostcc.schedule.components import Component, SmallProblem
from hostcc.schedule.fluid import Cycle, Group, simulate
from hostcc.schedule.problem import Floats, Ints

BATCH_VARIANTS = 2048
"""Variants simulated at a time."""
MAX_MIXED_VARIANTS = 192
"""Variants up to which components of different sizes are simulated together: a step of a few costs
as much as one of a hundred."""
Levels = tuple[int, ...]


class Oracle:
    """The value of levels: the sum over jobs of worth times iterations per second alone."""

    def __init__(
        self, small: SmallProblem, cycle: Cycle, worth: Floats, window: tuple[float, float]
    ):
        """`worth` (J,): value of a second of computation; `window`: seconds, from and to."""
        self.small, self.cycle, self.worth, self.window = small, cycle, worth, window
        self._known: dict[tuple[Component, Levels], float] = {}
        self._pairs: dict[Component, list[tuple[int, int]]] = {}
        self.simulated = 0

    def value(self, component: Component, levels: Sequence[int]) -> float:
        """Return the value per second of a component's jobs at `levels`, one for each member."""
        key = component, self.canonical_levels(component, levels)
        if key not in self._known:
            self.learn([(component, np.array([levels], np.int64))])
        return self._known[key]

    def canonical_levels(self, component: Component, levels: Sequence[int]) -> Levels:
        """Return what matters of the levels: for every pair that meets, which goes first."""
        if component not in self._pairs:
            self._pairs[component] = sorted(self.small.pairs(component))
        pairs = self._pairs[component]
        return tuple((levels[a] > levels[b]) - (levels[a] < levels[b]) for a, b in pairs)

    def learn(self, wanted: Sequence[tuple[Component, Ints]]) -> None:
        """Simulate all unknown (component, levels (N, members)), in large batches."""
        todo: dict[Component, dict[Levels, list[int]]] = {}
        for component, levels in wanted:
            fresh = todo.setdefault(component, {})
            for one in levels.tolist():
                key = self.canonical_levels(component, one)
                if (component, key) not in self._known:
                    fresh.setdefault(key, one)
        # Of similar size, so that variants simulated together take about as many steps.
        batch: list[tuple[Component, dict[Levels, list[int]]]] = []
        waiting, jobs = 0, 0
        for component, fresh in sorted(
            todo.items(), key=lambda item: (len(item[0].members), item[0].members)
        ):
            if not fresh:
                continue
            if waiting >= BATCH_VARIANTS or (
                waiting > MAX_MIXED_VARIANTS and len(component.members) != jobs
            ):
                self._run(batch)
                batch, waiting = [], 0
            batch.append((component, fresh))
            waiting, jobs = waiting + len(fresh), len(component.members)
        if batch:
            self._run(batch)

    def _run(self, batch: Sequence[tuple[Component, dict[Levels, list[int]]]]) -> None:
        groups = [
            Group(
                self.small.rows(component),
                np.array(list(fresh.values())),
                np.array(component.members),
            )
            for component, fresh in batch
        ]
        found = simulate(self.cycle, groups, *self.window)
        worth = self.worth / (self.window[1] - self.window[0])
        seconds = (found.compute_seconds * worth).sum(axis=1)
        keys = [(component, key) for component, fresh in batch for key in fresh]
        self._known.update(zip(keys, seconds.tolist(), strict=True))
        self.simulated += len(keys)
