"""Views made by hand and at random, for tests of the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable


def job(
    name: str, *, compute: float = 1.0, start: float | None = None, **more: float
) -> JobProfile:
    """A profile; communication starts when the computation ends unless told otherwise."""
    profile = JobProfile(name, compute, compute if start is None else start, 1.0, 8.0)
    return replace(profile, **more)  # type: ignore[arg-type]


def one_link(profiles: Sequence[JobProfile], sizes: Sequence[float]) -> ClusterView:
    """Every job sends one flow of the given bytes over one link of 1 byte/s."""
    flows = tuple(
        Flow(id=f"f-{profile.job}", job=profile.job, src="a", dst="b", bytes=size)
        for profile, size in zip(profiles, sizes, strict=True)
    )
    return ClusterView(
        jobs=tuple(profiles),
        flows=flows,
        tables=(PathTable("a", "b", (Path("p0", ("link",)),)),),
        links=(("link", 1.0),),
        digest="d",
    )
