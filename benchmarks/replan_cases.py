"""Pure: views on leaf-spine fabrics whose flows are on paths that nobody has planned for them.

A case is drawn from its seed and number alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.schedule import methods
from hostcc.schedule.plan import Options, Solution, solve_for_agents
from hostcc.schedule.problem import build

STARTS = ("ecmp", "others", "death", "return")
"""By hash; by the plan of a set of which half of the jobs have left; after a spine has died, flows
of which are on ECMP's paths; after it has returned, with the plan that was made without it."""
KINDS = ("pairs", "rings")
LOADS = (0.5, 3.0)
"""Offered load, from and to: seconds of traffic per second and link, if all were alike."""
COMPUTE_S = (0.4, 2.0)
MAX_DUTY = 0.7
"""Largest share of a job's iteration that one of its flows needs alone."""
MAX_RING_HOSTS = 4
MAX_PLANS = 32
"""Plans after which a case counts as one that never stands still."""


@dataclass(frozen=True)
class Case:
    """One start."""

    number: int
    tors: int
    spines: int
    jobs: int
    kind: str
    start: str
    load: float


def draw(
    seed: int,
    number: int,
    tors: Sequence[int],
    spines: Sequence[int],
    jobs: Sequence[int],
    starts: Sequence[str],
) -> Case:
    """Return a case: starts and kinds take turns, the rest is drawn."""
    rng = random.Random(f"hostcc replan {seed} {number}")
    return Case(
        number,
        rng.choice(tors),
        rng.choice(spines),
        rng.choice(jobs),
        KINDS[number // len(starts) % len(KINDS)],
        starts[number % len(starts)],
        rng.uniform(*LOADS),
    )


def started(seed: int, case: Case, options: Options) -> ClusterView:
    """Return the view in which every flow is on its present path."""
    view = fabric(seed, case)
    if case.start == "ecmp":
        return on_paths(view, hashed(view))
    if case.start == "others":
        busier = fabric(seed, case, others=case.jobs)
        flows = {flow.id for flow in view.flows}
        planned = settled(busier, options).view
        return on_paths(view, {one.id: one.path for one in planned.flows if one.id in flows})
    dead = failed(view, "s000")
    if case.start == "return":
        return replace(settled(dead, options).view, links=view.links)
    planned = settled(view, options).view
    moved = hashed(dead)
    left = [replace(f, path=moved[f.id]) if f.path == "s000" else f for f in planned.flows]
    return replace(dead, flows=tuple(left))


def fabric(seed: int, case: Case, others: int = 0) -> ClusterView:
    """Return the jobs of a case on links of one byte a second, without paths.

    `others`: jobs beside them that have as much traffic.
    """
    rng = random.Random(f"hostcc replan {seed} {case.number} jobs")
    names = [f"t{tor:03}" for tor in range(case.tors)]
    rings = []
    for _ in range(case.jobs + others):
        most = min(case.tors, MAX_RING_HOSTS)
        rings.append(rng.sample(names, 2 if case.kind == "pairs" else rng.randint(2, most)))
    flows = sum(map(len, rings[: case.jobs]))
    duty = case.load * case.tors * case.spines / flows
    profiles, made = [], []
    for index, ring in enumerate(rings):
        name = f"{'other' if index >= case.jobs else 'job'}{index:04}"
        compute, share = rng.uniform(*COMPUTE_S), min(MAX_DUTY, duty * rng.uniform(0.5, 1.5))
        start = compute * rng.choice((0.5, 0.75, 1.0))
        size = compute * share
        if start + size > compute:
            size = start * share / (1 - share)
        work = 8.0 * len(ring) * rng.choice((0.5, 1.0, 2.0)) * compute
        profiles.append(JobProfile(name, compute, start, work, 8.0 * len(ring)))
        made += [
            Flow(f"{name}-{hop}", name, src, dst, size)
            for hop, (src, dst) in enumerate(zip(ring, ring[1:] + ring[:1], strict=True))
        ]
    spines = [f"s{spine:03}" for spine in range(case.spines)]
    tables = tuple(
        PathTable(a, b, tuple(Path(s, (f"{a}>{s}", f"{s}>{b}")) for s in spines))
        for a, b in product(names, repeat=2)
        if a != b
    )
    links = tuple((x, 1.0) for a, s in product(names, spines) for x in (f"{a}>{s}", f"{s}>{a}"))
    return ClusterView(tuple(profiles), tuple(made), tables, links, digest=f"case {case.number}")


def hashed(view: ClusterView) -> dict[str, str]:
    """Return flow -> path by ECMP, among the paths whose links are up."""
    problem = build(view)
    paths = problem.path_ids.some(methods.ecmp(problem))
    return dict(zip(problem.flow_ids, paths, strict=True))


def on_paths(view: ClusterView, paths: Mapping[str, str]) -> ClusterView:
    """Return the view when its flows are on these paths."""
    return replace(view, flows=tuple(replace(f, path=paths[f.id]) for f in view.flows))


def failed(view: ClusterView, spine: str) -> ClusterView:
    """Return the view after all links of a spine have failed."""
    links = tuple((x, 0.0 if spine in x.split(">") else rate) for x, rate in view.links)
    return replace(view, links=links)


@dataclass(frozen=True)
class Settled:
    """What agents come to when they plan again after every plan."""

    view: ClusterView
    solution: Solution
    """The last one."""
    moves: int
    """Flows that left a path, over all plans."""
    plans: int
    """Plans that moved a flow."""


def settled(view: ClusterView, options: Options) -> Settled:
    """Plan, carry the plan out, and plan again until nothing moves, or MAX_PLANS times."""
    moves = plans = 0
    while True:
        found = solve_for_agents(view, options)
        problem, routing = found.problem, found.decision.routing
        changed = routing != problem.flow_path
        if not changed.any() or plans == MAX_PLANS:
            return Settled(view, found, moves, plans)
        moves += int((changed & (problem.flow_path >= 0)).sum())
        plans += 1
        paths = problem.path_ids.some(routing)
        view = on_paths(view, dict(zip(problem.flow_ids, paths, strict=True)))
