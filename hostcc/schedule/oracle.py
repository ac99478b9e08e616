"""The fluid simulation as an oracle for small problems, with a memory for components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hostcc.schedule.components import Component, Small
from hostcc.schedule.fluid import Cycle, Group, simulate
from hostcc.schedule.problem import Floats, Ints

BATCH = 4096
"""Variants simulated at a time."""
Levels = tuple[int, ...]


class Oracle:
    """What levels are worth: the sum over jobs of worth times iterations per second alone."""

    def __init__(self, small: Small, cycle: Cycle, worth: Floats, window: tuple[float, float]):
        """`worth` (J,): of a second of computation; `window`: seconds, from and to."""
        self.small, self.cycle, self.worth, self.window = small, cycle, worth, window
        self._known: dict[tuple[Component, Levels], float] = {}
        self._pairs: dict[Component, list[tuple[int, int]]] = {}
        self.simulated = 0

    def value(self, component: Component, levels: Sequence[int]) -> float:
        """Worth per second of one component's jobs; `levels` of its members."""
        key = component, self.plain(component, levels)
        if key not in self._known:
            self.learn([(component, np.array([levels], np.int64))])
        return self._known[key]

    def plain(self, component: Component, levels: Sequence[int]) -> Levels:
        """What of the levels matters: for every pair that meets, who goes first."""
        if component not in self._pairs:
            self._pairs[component] = sorted(self.small.pairs(component))
        pairs = self._pairs[component]
        return tuple((levels[a] > levels[b]) - (levels[a] < levels[b]) for a, b in pairs)

    def learn(self, wanted: Sequence[tuple[Component, Ints]]) -> None:
        """Simulate all (component, levels (N, members)) that are not known, in large batches."""
        todo: list[tuple[Component, list[Levels], list[list[int]]]] = []
        for component, levels in wanted:
            fresh: dict[Levels, list[int]] = {}
            for one in levels.tolist():
                key = self.plain(component, one)
                if (component, key) not in self._known:
                    fresh[key] = one
            if fresh:
                todo.append((component, list(fresh), list(fresh.values())))
        # Alike in size, so that what is simulated together takes as many steps.
        todo.sort(key=lambda item: (len(item[0].members), item[0].members))
        batch: list[tuple[Component, list[Levels], list[list[int]]]] = []
        for item in todo:
            if batch and (
                len(item[0].members) != len(batch[0][0].members)
                or sum(len(one[1]) for one in batch) >= BATCH
            ):
                self._run(batch)
                batch = []
            batch.append(item)
        if batch:
            self._run(batch)

    def _run(self, batch: Sequence[tuple[Component, list[Levels], list[list[int]]]]) -> None:
        groups = [
            Group(self.small.rows(component), np.array(levels), np.array(component.members))
            for component, _, levels in batch
        ]
        found = simulate(self.cycle, groups, *self.window)
        worth = self.worth / (self.window[1] - self.window[0])
        seconds = (found.compute_seconds * worth).sum(axis=1)
        keys = [(component, key) for component, names, _ in batch for key in names]
        self._known.update(zip(keys, seconds.tolist(), strict=True))
        self.simulated += len(keys)
