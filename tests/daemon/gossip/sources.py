"""Profiles made by hand, in place of what measures jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.profile_store import ExpectedJob, ProfileStore
from hostcc.model import JobProfile


class ToySource:
    """What `measure` returns was measured; all jobs there are were, unless `weights` are given."""

    def __init__(
        self,
        measure: Callable[[], Sequence[JobProfile]] = list,
        weights: Callable[[], Mapping[str, float]] | None = None,
    ) -> None:
        self.profiles = measure
        self._weights = weights

    def latest(self, name: str) -> JobProfile | None:
        return next((one for one in self.profiles() if one.job == name), None)

    def expected(self) -> Mapping[str, ExpectedJob]:
        return {}

    def weights(self) -> Mapping[str, float]:
        if self._weights is not None:
            return self._weights()
        return {one.job: one.weight for one in self.profiles()}


def no_profiles() -> ProfileStore:
    """A store of a host on which nothing is measured."""
    return ProfileStore(ToySource(), Cluster())
