"""Periodic jobs for the simulators, and what a controller orders while they run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol


@dataclass(frozen=True)
class SimFlow:
    """One flow of a job."""

    bytes: float
    """Bytes per iteration, or per round where there are several."""
    links: tuple[int, ...]
    """Links, as indices into the capacities, unless the controller sets others."""
    weight: float = 1.0
    """Share within its level, relative to other flows'."""
    rate: float = math.inf
    """Most that it sends, bytes/s."""
    rounds: int = 1
    """Times that the bytes are sent; all flows of a ring have the same."""
    ring: int = 0
    """Flows of a phase with the same ring wait for each other after each round."""


@dataclass(frozen=True)
class SimPhase:
    """Flows that start together, after those of the phase before."""

    start: float
    """Seconds of the iteration's computation before it."""
    flows: tuple[SimFlow, ...]
    blocks: bool = False
    """Whether the computation waits for it."""


@dataclass(frozen=True)
class SimJob:
    """A job; times in seconds, sizes in bytes."""

    compute: float
    """Computation per iteration."""
    comm_start: float
    """Time from an iteration's start to its communication."""
    flows: tuple[SimFlow, ...]
    start: float = 0.0
    """Start of the first iteration; may be negative, but nothing is sent before 0."""
    iterations: int | None = None
    """Iterations after which it leaves; None: it stays."""
    stop: float = math.inf
    """When it leaves at the latest, in mid-iteration."""
    later: tuple[SimPhase, ...] = ()
    """Phases after that of `comm_start` and `flows`."""

    @cached_property
    def phases(self) -> tuple[SimPhase, ...]:
        """All phases of an iteration."""
        return (SimPhase(self.comm_start, self.flows), *self.later)


@dataclass(frozen=True)
class Grid:
    """When a job's iterations should begin (CASSINI's time-shifts)."""

    period: float
    """Seconds; 0: whenever the one before ends."""
    origin: float = 0.0
    """One of the times."""
    slack: float = 0.0
    """Share of the period by which an iteration may begin too early or too late."""


@dataclass(frozen=True)
class Orders:
    """What a controller sets from now on; who is not named keeps what it has."""

    levels: Mapping[int, int] = field(default_factory=dict)
    """Job -> level, 0 the highest (and at first)."""
    routes: Mapping[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    """(Job, index of the flow in all its phases) -> links."""
    weights: Mapping[int, float] = field(default_factory=dict)
    """Job -> factor of its flows' weights."""
    shifts: Mapping[int, float] = field(default_factory=dict)
    """Job -> seconds by which its next iteration begins later."""
    grids: Mapping[int, Grid] = field(default_factory=dict)
    """Job -> when its iterations should begin."""
    capacity: Mapping[int, float] = field(default_factory=dict)
    """Link -> bytes/s; 0: it has failed."""
    at_once: bool = True
    """Whether routes hold for flows that are being sent, too. Otherwise one that is starved on its
    route stays there for as long."""
    again: float = math.inf
    """When to call the controller at the latest."""


class Controller(Protocol):
    """Sets levels and routes when the set of jobs changes."""

    def __call__(self, now: float, running: Sequence[int]) -> Orders:
        """Return orders for the jobs that run at `now`."""
