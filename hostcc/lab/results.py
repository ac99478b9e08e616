"""The record of a lab run: `results.json`, with a versioned schema (docs/lab.md)."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

import msgspec

from hostcc.lab.flowreport import FlowResult, SettledResult
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.scenario import Scenario
from hostcc.lab.statistics import TimeSummary

SCHEMA = "hostcc-lab-results"
VERSION = 1


class JobResult(msgspec.Struct, frozen=True):
    """One job in one run."""

    name: str
    summary: TimeSummary
    seconds: list[float]
    """Every iteration's time, those after another job has left included."""
    starts_s: list[float]
    """When each iteration began, seconds after the common start."""
    retransmitted_segments: int
    sent_segments: int
    turns_from_s: float | None = None
    """When it began to take turns on all of its hosts, seconds after the common start; None: it
    took none at the end."""


class QueueResult(msgspec.Struct, frozen=True):
    """One direction of the bottleneck in one run."""

    packets: int
    bytes: int
    drops: int
    loss_percent: float


class BackgroundResult(msgspec.Struct, frozen=True):
    """Background traffic in one run."""

    name: str
    mean_mbit: float
    """On the wire, as it arrived, over the time that it was active."""


class AgentResult(msgspec.Struct, frozen=True):
    """An agent's use of the machine during a run."""

    host: str
    cpu_seconds: float
    resident_bytes: float


class EventResult(msgspec.Struct, frozen=True):
    """Something done in mid-run."""

    at_s: float
    what: str
    problem: str
    """Empty when it went well."""


class RunResult(msgspec.Struct, frozen=True):
    """All jobs together, once."""

    started_at_s: float
    """Common start, CLOCK_MONOTONIC; the series' times are on the same clock."""
    jobs: list[JobResult]
    converged_after: int | None
    """Iterations until all jobs are within 5 % of alone at once; None: never."""
    bottleneck: dict[str, QueueResult]
    """By direction: `right` is left to right."""
    marked_packets: int
    background: list[BackgroundResult]
    agents: list[AgentResult]
    events: list[EventResult]
    series: str | None
    """File of the bandwidth over time, beside results.json."""
    resets: int = 0
    """Of jobs' connections between leaves, before the jobs were told to leave."""
    out_of_order: int = 0
    """Segments that arrived before an earlier one."""
    flows: list[FlowResult] = []
    """On a leaf-spine fabric: the paths of each job's flows."""
    settled: list[SettledResult] = []
    """On a leaf-spine fabric: after each arrival and event."""


class VariantResult(msgspec.Struct, frozen=True):
    """One variant: each job alone, and all together, repeated."""

    name: str
    alone_s: dict[str, float]
    alone_seconds: dict[str, list[float]]
    runs: list[RunResult]


class Machine(msgspec.Struct, frozen=True):
    """Where it was measured."""

    kernel: str
    architecture: str
    processors: int


class Results(msgspec.Struct, frozen=True):
    """A whole comparison."""

    scenario_name: str
    scenario: Scenario
    iterations: int
    variants: list[VariantResult]
    machine: Machine
    schema: str = SCHEMA
    version: int = VERSION


class LeafSpineResults(Results, frozen=True):
    """The same of a scenario on a leaf-spine fabric."""

    scenario: LeafSpineScenario


def this_machine() -> Machine:
    """Kernel, architecture, number of processors."""
    return Machine(platform.release(), platform.machine(), os.cpu_count() or 1)


def encode(results: Results) -> bytes:
    """The record as JSON text."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"


def decode(data: bytes) -> Results:
    """Read a record back; raises ValueError when it is not one of this version."""
    head: Any = msgspec.json.decode(data)
    if not isinstance(head, dict) or (
        head.get("schema") != SCHEMA or head.get("version") != VERSION
    ):
        raise ValueError(f"expected {SCHEMA} version {VERSION}")
    return convert(head)


def convert(document: Mapping[str, Any]) -> Results:
    """Return a decoded record as one of its kind of fabric; raises ValueError."""
    fabric = document.get("scenario", {}).get("fabric", {})
    leafspine = isinstance(fabric, dict) and fabric.get("kind") == "leaf-spine"
    return msgspec.convert(document, LeafSpineResults if leafspine else Results)
