"""Splits a problem into components that are planned independently of each other. Pure.

Two jobs are coupled if a flow of each has a usable path over the same link, whether it is on that
path now or not; a component is what is coupled, directly or through others. No routing puts jobs of
two components on one link, so neither delays the other, and no flow has to compare links of two
components. The plan of a view is the plans of its components. A host that plans only the components
of its own jobs gets exactly what the plan of the whole view has for them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.contention_graph import spans
from hostcc.schedule.name_list import NameList
from hostcc.schedule.problem import Ints, Problem


@dataclass(frozen=True)
class Component:
    """A part of a problem; arrays map what it has to what the whole has, ascending."""

    problem: Problem
    jobs: Ints
    flows: Ints
    paths: Ints


def labels(problem: Problem) -> Ints:
    """Return (J,) the first job of each job's component; -1 for jobs without flows."""
    if not problem.flow_count:
        return np.full(problem.job_count, -1)
    tables, at = np.unique(problem.flow_table, return_inverse=True)
    at = at.reshape(-1)
    first, past = problem.table_start[tables], problem.table_start[tables + 1]
    jobs, begin = np.unique(problem.flow_job, return_index=True)
    label = np.arange(problem.job_count)
    # Within a host there is no link, and nothing to share.
    without = np.flatnonzero(problem.path_start[first] == problem.path_start[past])
    # First by one path of each table: in a large cluster that couples all jobs already.
    for last in (first + 1, past):
        starts, ends = problem.path_start[first], problem.path_start[last]
        link, size = problem.path_links[spans(starts, ends)], ends - starts
        table = np.repeat(np.arange(len(tables)), size)
        linked = np.flatnonzero(size)
        begins = (size.cumsum() - size)[linked]
        while (label[jobs] != jobs[0]).any():
            of_table = np.full(len(tables), problem.job_count)
            np.minimum.at(of_table, at, label[problem.flow_job])
            of_link = np.full(problem.link_count, problem.job_count)
            np.minimum.at(of_link, link, of_table[table])
            if len(linked):
                of_table[linked] = np.minimum.reduceat(of_link[link], begins)
            of_table[without] = problem.job_count
            found = label.copy()
            found[jobs] = np.minimum(label[jobs], np.minimum.reduceat(of_table[at], begin))
            found = found[found]
            if np.array_equal(found, label):
                break
            label = found
    idle = np.ones(problem.job_count, np.bool_)
    idle[jobs] = False
    label[idle] = -1
    return label


def components(problem: Problem) -> list[Component]:
    """Return the components of the jobs that have flows, by their first jobs."""
    label = labels(problem)
    if not len(label):
        return []
    first = sorting.distinct(label)
    if not first.any() and _all_used(problem):
        return [Component(problem, *map(np.arange, _sizes(problem)))]
    first = first[first >= 0]
    by = np.argsort(label, kind="stable")
    jobs = np.split(by, np.searchsorted(label[by], first))[1:]
    of_flow = label[problem.flow_job]
    by = np.argsort(of_flow, kind="stable")
    flows = np.split(by, np.searchsorted(of_flow[by], first))[1:]
    return [_part(problem, *one) for one in zip(jobs, flows, strict=True)]


def equal(one: Problem, other: Problem) -> bool:
    """Return whether two problems are the same, so that they have the same plan."""
    for field in fields(Problem):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                return False
        elif isinstance(a, NameList):
            if a is not b and a != b:
                return False
        elif a != b:
            return False
    return True


def _all_used(problem: Problem) -> bool:
    """Return whether there is no table or link that no flow may use."""
    tables = np.bincount(problem.flow_table, minlength=len(problem.table_start) - 1)
    links = np.bincount(problem.path_links, minlength=problem.link_count)
    return bool(tables.all() and links.all())


def _sizes(problem: Problem) -> tuple[int, int, int]:
    return problem.job_count, problem.flow_count, len(problem.path_start) - 1


def _part(problem: Problem, jobs: Ints, flows: Ints) -> Component:
    """Return some jobs with all of their flows, and the tables and links of those."""
    tables, flow_table = np.unique(problem.flow_table[flows], return_inverse=True)
    first, past = problem.table_start[tables], problem.table_start[tables + 1]
    paths, begin, end = spans(first, past), problem.path_start[first], problem.path_start[past]
    path_links = problem.path_links[spans(begin, end)]
    used = np.zeros(problem.link_count, np.bool_)
    used[path_links] = True
    links = np.flatnonzero(used)
    moved = (past - first).cumsum() - past
    path = problem.flow_path[flows]
    start = _starts(past - first)
    names = [problem.path_ids.parts[table] for table in tables.tolist()]
    every = len(tables) == len(problem.table_start) - 1 and len(links) == problem.link_count
    # Where only jobs without flows are left out, the largest arrays are those of the whole.
    ways = problem.ways
    if ways and not every:
        ways = [ways[one] for one in tables.tolist()]
    return Component(
        replace(
            problem,
            job_ids=tuple(map(problem.job_ids.__getitem__, jobs.tolist())),
            flow_ids=tuple(map(problem.flow_ids.__getitem__, flows.tolist())),
            link_ids=tuple(map(problem.link_ids.__getitem__, links.tolist())),
            path_ids=problem.path_ids if every else NameList(names, start),
            capacity=problem.capacity[links],
            compute=problem.compute[jobs],
            comm_start=problem.comm_start[jobs],
            work=problem.work[jobs],
            gpus=problem.gpus[jobs],
            weight=problem.weight[jobs],
            slowdown=problem.slowdown[jobs],
            phase=problem.phase[jobs],
            period=problem.period[jobs],
            comm=problem.comm[jobs],
            confidence=problem.confidence[jobs],
            flow_job=np.searchsorted(jobs, problem.flow_job[flows]),
            flow_bytes=problem.flow_bytes[flows],
            flow_table=flow_table.reshape(-1),
            flow_path=np.where(path >= 0, path + moved[flow_table.reshape(-1)], -1),
            table_start=problem.table_start if every else start,
            path_start=problem.path_start if every else _starts(np.diff(problem.path_start)[paths]),
            path_links=problem.path_links if every else (used.cumsum() - 1)[path_links],
            ways=ways,
            blind=problem.blind[jobs],
            assumed=tuple(map(problem.assumed.__getitem__, jobs.tolist()))
            if problem.assumed
            else (),
        ),
        jobs,
        flows,
        paths,
    )


def _starts(count: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
