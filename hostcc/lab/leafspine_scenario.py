"""Scenarios on a leaf-spine fabric: jobs have their places, and switches their queues.

The keys beyond those of other scenarios; `[fabric] kind = "leaf-spine"` makes the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hostcc.lab.leafspine_plan import MAX_HOSTS, MAX_LEAVES, MAX_SPINES
from hostcc.lab.scenario import (
    ActionSpec,
    BackgroundSpec,
    FabricSpec,
    JobSpec,
    Problem,
    Scenario,
    check_actions,
    check_background,
    check_job,
    check_names,
)

MAX_SCENARIO_HOSTS = 64
HostName = Annotated[str, Meta(pattern=r"^h[1-9][0-9]{0,3}\Z", description="h1, h2 ...")]
HostRate = Annotated[float, Meta(ge=0, le=10_000)]
Dscp = Annotated[int, Meta(ge=0, le=63)]
EVENTS = {
    "spine-down": 1,
    "spine-up": 1,
    "uplink": 3,
    "cut-gossip": None,
    "heal-gossip": 0,
    "start-agent": None,
    "start-job": 1,
    "stop-job": 1,
}
"""Words that follow; None: any number from one."""


class LeafSpineFabric(FabricSpec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Leaves with a link to every spine; ECMP chooses the spine."""

    kind: Literal["leaf-spine"] = "leaf-spine"  # type: ignore[assignment]
    rate_mbit: Annotated[float, Meta(ge=1, le=10_000)] = 100.0
    """Of each link between leaf and spine, each direction."""
    spines: Annotated[int, Meta(ge=1, le=MAX_SPINES)] = 4
    leaves: Annotated[int, Meta(ge=1, le=MAX_LEAVES)] = 2
    hosts_per_leaf: Annotated[int, Meta(ge=1, le=MAX_HOSTS)] = 4
    host_mbit: HostRate | Annotated[tuple[HostRate, ...], Meta(max_length=MAX_SCENARIO_HOSTS)] = 0.0
    """Of a host's link, each direction; 0: as fast as the machine.  A list: of h1, h2 ..."""
    queues: Literal["fifo", "strict", "shares"] = "fifo"
    """Of links between leaf and spine: one, or one for each of `levels`."""
    levels: Annotated[tuple[Dscp, ...], Meta(max_length=12)] = (40, 32, 24, 16, 8)
    """DSCP of each queue, the first served first (or with the largest share)."""
    hash_seed: Annotated[int, Meta(ge=1, le=2**32 - 1)] = 1
    """Of the switches' ECMP; with the run's number it decides which flows collide."""
    management: bool = False
    """Whether agents talk over a network of their own."""


class PlacedJobSpec(JobSpec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job that names its hosts; several jobs may share one."""

    on: Annotated[tuple[HostName, ...], Meta(min_length=2, max_length=32)]
    """By rank."""
    flops: Annotated[float, Meta(ge=0, le=1e30)] = 0.0
    """W: FLOP per iteration of all its hosts together; 0: unknown."""
    declare_flops: bool = True
    """Whether `hostcc run` is told W, where it is known."""
    marks: bool = False
    """Whether the built-in traffic tells the agents its iteration boundaries (hostcc.mark)."""


class PlacedBackgroundSpec(BackgroundSpec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Background traffic that names its hosts."""

    on: tuple[HostName, HostName]
    """Sender and receiver."""


class LeafSpineScenario(Scenario, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole scenario on a leaf-spine fabric."""

    fabric: LeafSpineFabric = LeafSpineFabric()
    job: Annotated[tuple[PlacedJobSpec, ...], Meta(max_length=32)] = ()
    background: Annotated[tuple[PlacedBackgroundSpec, ...], Meta(max_length=16)] = ()


def completed(scenario: LeafSpineScenario) -> LeafSpineScenario:
    """With every job's number of hosts."""
    jobs = tuple(msgspec.structs.replace(job, hosts=len(job.on)) for job in scenario.job)
    return msgspec.structs.replace(scenario, job=jobs)


def check(scenario: LeafSpineScenario) -> Iterator[Problem]:
    """What is wrong with keys that are fine one by one."""
    if not scenario.job:
        yield "job", "at least one [[job]]", "none"
    yield from check_names("job", [job.name for job in scenario.job])
    yield from check_names("variant", [variant.name for variant in scenario.variant])
    yield from _check_fabric(scenario.fabric)
    count = scenario.fabric.leaves * scenario.fabric.hosts_per_leaf
    known = {f"h{number}" for number in range(1, count + 1)}
    for index, job in enumerate(scenario.job):
        yield from _check_placed(f"job[{index}]", job, known)
    for index, background in enumerate(scenario.background):
        yield from check_background(f"background[{index}]", background)
        yield from _check_hosts(f"background[{index}]", background.on, known)
    yield from check_actions(scenario.action, EVENTS)
    for index, action in enumerate(scenario.action):
        yield from _check_event(f"action[{index}].run", action, scenario, known)


def _check_fabric(fabric: LeafSpineFabric) -> Iterator[Problem]:
    if fabric.leaves * fabric.hosts_per_leaf > MAX_SCENARIO_HOSTS:
        yield (
            "fabric.hosts_per_leaf",
            f"at most {MAX_SCENARIO_HOSTS} hosts in all",
            fabric.leaves * fabric.hosts_per_leaf,
        )
    rates, hosts = fabric.host_mbit, fabric.leaves * fabric.hosts_per_leaf
    if isinstance(rates, tuple) and len(rates) != hosts:
        yield "fabric.host_mbit", f"a rate, or one of each of {hosts} hosts", list(rates)
    if fabric.ecn_threshold_packets:
        yield (
            "fabric.ecn_threshold_packets",
            '0 with kind = "leaf-spine"',
            fabric.ecn_threshold_packets,
        )
    if len(set(fabric.levels)) != len(fabric.levels):
        yield "fabric.levels", "every DSCP once", list(fabric.levels)


def _check_placed(key: str, job: PlacedJobSpec, known: set[str]) -> Iterator[Problem]:
    if job.hosts not in (2, len(job.on)):
        yield f"{key}.hosts", "no such key: `on` names them", job.hosts
    complete = msgspec.structs.replace(job, hosts=len(job.on))
    yield from check_job(key, complete, even=False)
    yield from _check_hosts(key, job.on, known)


def _check_hosts(key: str, on: tuple[str, ...], known: set[str]) -> Iterator[Problem]:
    for name in on:
        if name not in known:
            yield f"{key}.on", f"hosts from h1 to h{len(known)}", name
    if len(set(on)) != len(on):
        yield f"{key}.on", "every host once", list(on)


def _check_event(
    key: str, action: ActionSpec, scenario: LeafSpineScenario, known: set[str]
) -> Iterator[Problem]:
    if not isinstance(action.run, str):
        return
    verb, *words = action.run.split()
    fabric = scenario.fabric
    jobs = {job.name for job in scenario.job}
    spines = {str(number) for number in range(1, fabric.spines + 1)}
    leaves = {f"leaf{number}" for number in range(1, fabric.leaves + 1)}
    if verb.startswith("spine-") and words[0] not in spines:
        yield key, f"a spine from 1 to {fabric.spines}", words[0]
    elif verb == "uplink" and (
        words[0] not in leaves or words[1] not in spines or not _is_rate(words[2])
    ):
        yield key, "uplink LEAF SPINE MBIT, such as uplink leaf1 2 50", action.run
    elif verb in ("start-job", "stop-job") and words[0] not in jobs:
        yield key, f"one of {', '.join(sorted(jobs))}", words[0]
    elif verb in ("kill-agent", "start-agent", "restart-agent", "cut-gossip"):
        fine = known | jobs | {"all"}
        for word in words:
            if word not in fine:
                yield key, "all, a job, or a host", word


def _is_rate(text: str) -> bool:
    try:
        return 1 <= float(text) <= 10_000
    except ValueError:
        return False
