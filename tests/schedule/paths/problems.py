"""Problems on a leaf-spine fabric that the tests of path choice share."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.schedule.paths.fabric import Ints
from hostcc.schedule.problem import Problem, build


def view(
    jobs: list[dict[str, Any]], *, tors: int = 3, spines: int = 2, dead: tuple[str, ...] = ()
) -> ClusterView:
    """Jobs with `flows`: (source ToR, destination ToR, bytes, path it is on or "")."""
    tables, profiles, flows = {}, [], []
    for index, job in enumerate(jobs):
        name = job.get("name", f"j{index}")
        compute = job.get("compute", 1.0)
        profiles.append(
            JobProfile(name, compute, job.get("start", compute), job.get("work", 1.0), 8.0)
        )
        for number, (src, dst, size, on) in enumerate(job["flows"]):
            ends = (f"t{src}", f"t{dst}")
            paths = tuple(
                Path(f"s{s}", (f"t{src}>s{s}", f"s{s}>t{dst}") if src != dst else ())
                for s in range(spines)
            )
            tables[ends] = PathTable(*ends, paths)
            flows.append(Flow(f"{name}-{number}", name, *ends, size, path=on))
    names = [f"t{t}>s{s}" for t in range(tors) for s in range(spines)]
    names += [f"s{s}>t{t}" for t in range(tors) for s in range(spines)]
    links = tuple((name, 0.0 if name in dead else 1.0) for name in names)
    return ClusterView(tuple(profiles), tuple(flows), tuple(tables.values()), links)


def random_problem(seed: int, scale: float, jobs: int = 10) -> Problem:
    """Jobs of up to four flows between four ToRs, each of up to 0.8 `scale` seconds of a link."""
    rng = random.Random(seed)
    made = []
    for _ in range(jobs):
        flows = [
            (*rng.sample(range(4), 2), scale * rng.uniform(0.1, 0.8), "")
            for _ in range(rng.randint(1, 4))
        ]
        made.append({"compute": rng.uniform(0.3, 2), "work": rng.uniform(1, 9), "flows": flows})
    return problem(made, tors=4, spines=3)


def problem(jobs: list[dict[str, Any]], **fabric: Any) -> Problem:
    return build(view(jobs, **fabric))


def valid(made: Problem, routing: Ints) -> bool:
    """Whether every flow is on a path of its own pair (failed ones are not in a Problem)."""
    low = made.table_start[made.flow_table]
    high = made.table_start[made.flow_table + 1]
    return bool(np.all((low <= routing) & (routing < high)))


def names(made: Problem, routing: Ints) -> dict[str, str]:
    """Flow -> path, by name."""
    return {made.flow_ids[flow]: made.path_ids[path] for flow, path in enumerate(routing.tolist())}


@st.composite
def views(draw: st.DrawFn) -> ClusterView:
    """Up to seven jobs on three ToRs, some links of which may have failed."""
    seconds = st.floats(0, 3)
    flow = st.tuples(st.integers(0, 2), st.integers(0, 2), seconds, st.sampled_from(["", "s0"]))
    job = st.fixed_dictionaries(
        {
            "compute": seconds,
            "start": seconds,
            "work": st.floats(0, 1e3),
            "flows": st.lists(flow, max_size=4),
        }
    )
    jobs = draw(st.lists(job, max_size=7))
    dead = draw(st.lists(st.sampled_from(["t0>s0", "s1>t2", "t1>s1", "s0>t1"]), max_size=3))
    return view(jobs, dead=tuple(dead))
