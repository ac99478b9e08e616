"""What a replayed cluster has against its plans: delays, errors of measurement, failed links."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from hostcc.errors import InputError
from hostcc.model import JobProfile
from hostcc.sim.cluster_jobs import PlacedJob
from hostcc.sim.fabrics import CLASSES, Topology

MOST_FAILURES = 10_000
MOST_SECONDS = 1e8
MOST_ERROR = 0.9


@dataclass(frozen=True)
class Failure:
    """A connection that is down, both ways."""

    at: float
    """Seconds since the replay's beginning."""
    until: float
    """Infinity: it stays down."""
    kind: str
    """One of fabrics.CLASSES."""
    ends: tuple[int, int]
    """For `nic` and `pcie` number of the NIC over all hosts, and ToR (0 for `pcie`); for `agg`
    ToR and aggregation switch; for `core` aggregation and core switch."""

    def links(self, topology: Topology) -> tuple[int, ...]:
        """Return both directions. Raises InputError for a connection that the fabric lacks."""
        found = tuple(topology.link(self.kind, *self.ends, way) for way in (0, 1))
        both = tuple(link for link in found if link is not None)
        if len(both) != len(found):
            raise InputError(
                f"failure: expected a connection of {topology.name}, "
                f"got {self.kind}:{self.ends[0]}-{self.ends[1]}"
            )
        return both


@dataclass(frozen=True)
class Conditions:
    """All of them; by default plans are right and in force at once."""

    lag_s: float = 0.0
    """From a change of who runs to the plan for it."""
    profiling_s: float = 0.0
    """In which a new job is in no plan and goes before all others."""
    error: float = 0.0
    """Fraction by which each measured number may be off, once for each job."""
    failures: tuple[Failure, ...] = ()

    def __post_init__(self) -> None:
        """Check; raises InputError."""
        for name, most in (
            ("lag_s", MOST_SECONDS),
            ("profiling_s", MOST_SECONDS),
            ("error", MOST_ERROR),
        ):
            value = getattr(self, name)
            if not 0 <= value <= most:
                raise InputError(f"{name}: expected 0 to {most:g}, got {value:g}")
        if len(self.failures) > MOST_FAILURES:
            raise InputError(f"failures: expected up to {MOST_FAILURES}")
        for one in self.failures:
            if not (0 <= one.at < one.until and one.at <= MOST_SECONDS):
                raise InputError(f"failure: expected seconds from 0 to {MOST_SECONDS:g}, rising")


def parse_failures(text: str) -> tuple[Failure, ...]:
    """Return failures from text such as `3600:agg:3-5,7200-9000:agg:0-1`. Raises InputError."""
    found = []
    for part in text.split(",") if text else ():
        try:
            times, kind, ends = part.split(":")
            begin, _, end = times.partition("-")
            one, other = ends.split("-")
            failure = Failure(
                float(begin), float(end) if end else math.inf, kind, (int(one), int(other))
            )
        except ValueError:
            raise InputError(
                f"failures: expected SECONDS[-SECONDS]:CLASS:A-B, got {part!r:.60}"
            ) from None
        if kind not in CLASSES or not failure.at < failure.until:
            raise InputError(
                f"failures: expected rising seconds and a class of {', '.join(CLASSES)}, "
                f"got {part!r:.60}"
            )
        found.append(failure)
    return tuple(found)


def measured(job: PlacedJob, name: str, alone: float, error: float, seed: int) -> JobProfile:
    """Return a job's profile, each number off by up to `error`, always by the same."""
    rng = random.Random(f"hostcc replayed measurement {seed} {name}")
    size = job.size

    def off(value: float) -> float:
        return value * (1 + rng.uniform(-error, error)) if error else value

    compute = off(size.compute_s)
    return JobProfile(
        name,
        compute,
        min(off(size.comm_start_s), compute),
        off(job.flop),
        job.gpus,
        period_s=off(alone),
    )


def bytes_factor(name: str, error: float, seed: int) -> float:
    """Return measured over sent bytes of a job."""
    rng = random.Random(f"hostcc replayed bytes {seed} {name}")
    return 1 + rng.uniform(-error, error) if error else 1.0
