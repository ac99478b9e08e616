"""Lists the links of a plan with the jobs that share them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hostcc.answers.links import LinkJob, LinkRow, Links, OwnLink
from hostcc.errors import NoJobError
from hostcc.schedule import sorting
from hostcc.schedule.link_load import LinkLoads, link_loads, periods
from hostcc.schedule.plan import Solution
from hostcc.schedule.problem import TINY_S, Ints

MAX_SHARING_JOBS = 64
"""Jobs that are named of a link, the highest ranks first."""
MAX_OWN_LINKS = 64
"""Links of a host that are in the status, the highest loads first."""


def list_links(
    found: Solution, digest: str, limit: int, job: str | None = None, *, every: bool = False
) -> Links:
    """Return links by load: shared ones (`every`: all that are used), of one job or of all.

    Raises NoJobError for a job that is not in the view.
    """
    problem, loads = found.problem, link_loads(found)
    wanted = loads.jobs >= (1 if every else 2)
    if job is not None:
        if job not in problem.job_ids:
            raise NoJobError(f"no job {job!r:.70} among the {problem.job_count} that are planned")
        mine = np.zeros(problem.link_count, np.bool_)
        mine[loads.link[loads.job == problem.job_ids.index(job)]] = True
        wanted &= mine
    rows = _by_load(loads, wanted)
    return Links(
        digest=digest,
        total=len(rows),
        links=tuple(_row(found, loads, link) for link in rows[:limit].tolist()),
    )


def own_links(found: Solution, host: str) -> tuple[OwnLink, ...]:
    """Return the shared links that flows from `host` cross by the plan, the highest loads first."""
    problem, loads = found.problem, link_loads(found)
    keys = found.reading.tables.keys
    from_here = np.fromiter((src == host for src, _ in keys), np.bool_, len(keys))
    own = np.flatnonzero(from_here[problem.flow_table])
    used = np.zeros(problem.link_count, np.bool_)
    for path in sorting.distinct(found.decision.routing[own]).tolist():
        used[problem.path_links[problem.path_start[path] : problem.path_start[path + 1]]] = True
    return tuple(
        OwnLink(
            link=problem.link_ids[link],
            load=float(loads.total[link]),
            capacity=float(problem.capacity[link]),
            jobs=int(loads.jobs[link]),
        )
        for link in _by_load(loads, used & (loads.jobs > 1))[:MAX_OWN_LINKS].tolist()
    )


def _by_load(loads: LinkLoads, wanted: NDArray[np.bool_]) -> Ints:
    """Return the links, the highest loads first, then by name."""
    rows = np.flatnonzero(wanted)
    return rows[np.argsort(-loads.total[rows], kind="stable")]


def _row(found: Solution, loads: LinkLoads, link: int) -> LinkRow:
    problem, these = found.problem, loads.entries(link)
    jobs, load = loads.job[these], loads.load[these]
    by_rank = np.argsort(found.decision.rank[jobs])[:MAX_SHARING_JOBS]
    period, time = periods(found), np.maximum(found.times, TINY_S)

    def on_link(job: int, load: float) -> LinkJob:
        return LinkJob(
            problem.job_ids[job],
            int(found.level[job]),
            load,
            float(period[job]),
            float(problem.comm_start[job]),
            float(found.times[job]),
            min(1.0, float(load * period[job] / time[job])),
        )

    return LinkRow(
        link=problem.link_ids[link],
        capacity=float(problem.capacity[link]),
        load=float(loads.total[link]),
        full=bool(loads.full[link]),
        jobs=int(loads.jobs[link]),
        sharing=tuple(map(on_link, jobs[by_rank].tolist(), load[by_rank].tolist())),
    )
