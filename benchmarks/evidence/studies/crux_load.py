"""hostcc beside Crux-full against load: random jobs on small fabrics, traffic times 0.5 to 5.

No source has these figures. They show on which fabrics and at which loads hostcc's paths and order
are worth more or less than Crux's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.evidence.document import Curve, Evidence, Line, Request, Study
from hostcc.sim import cluster_run, fabrics, workload_table
from hostcc.sim.cluster_conditions import Conditions
from hostcc.sim.cluster_jobs import Setting
from hostcc.sim.fabrics import Topology
from hostcc.sim.released import Trace, TracedHost, TracedJob

LOADS: tuple[float, ...] = (0.5, 1.0, 2.0, 3.5, 5.0)
QUICK_LOADS: tuple[float, ...] = (5.0,)
SEEDS, QUICK_SEEDS = 5, 1
JOBS, HOSTS = 20, 64
HOSTS_OF_JOB = (2, 2, 4, 4, 8)
MINUTES, QUICK_MINUTES = 2, 1
RATES = {"nic": 200 * fabrics.GBIT, "agg": 200 * fabrics.GBIT}
FABRICS: Mapping[str, Callable[[], Topology]] = {
    "16 ToRs, 4 spines": lambda: fabrics.two_layer("load", HOSTS, 16, 4, 4, RATES),
    "8 ToRs, 16 spines": lambda: fabrics.two_layer("load", HOSTS, 8, 16, 4, RATES),
    "double-sided": lambda: fabrics.crux_double(hosts=HOSTS),
}
QUICK_FABRICS = ("16 ToRs, 4 spines",)
LATE = Conditions(lag_s=20.0, error=0.2)
LATE_LOADS = (1.0, 5.0)
WHO = ("ecmp", "crux-full", "hostcc")
LEAST = -0.002
GOAL = 0.01

Shares = Mapping[tuple[float, str], Sequence[float]]
"""(Load, who) -> utilisation over that of the same jobs alone, of each seed."""


def trace(seed: int, minutes: int) -> Trace:
    """Return random jobs that all run for so many minutes; placements choose their hosts."""
    rng = random.Random(f"hostcc load {seed}")
    names = sorted(workload_table.read().names.models)
    jobs = []
    for number in range(JOBS):
        size = rng.choice(HOSTS_OF_JOB)
        hosts = tuple((host, 8) for host in range(size))
        jobs.append(
            TracedJob(
                f"job{number}", number, rng.choice(names), 0, 0, minutes, 8 * size, hosts
            )
        )  # fmt: skip
    hosts_of = tuple(
        TracedHost(f"h{at}", "P", f"P/T{at * 16 // HOSTS}", True) for at in range(HOSTS)
    )
    return Trace(tuple(jobs), hosts_of, {}, {})


def shares(
    fabric: str,
    loads: Sequence[float],
    seeds: int,
    minutes: int,
    who: Sequence[str] = WHO,
    how: cluster_run.How | None = None,
    request: Request | None = None,
) -> Shares:
    """Replay every load and seed on a fabric, a key of FABRICS, under each scheduler."""
    topology = FABRICS[fabric]()
    found: dict[tuple[float, str], list[float]] = {(load, one): [] for load in loads for one in who}
    for number, (load, seed) in enumerate((load, seed) for load in loads for seed in range(seeds)):
        if request is not None:
            request.tell(fabric, number, len(loads) * seeds)
        setting = Setting("none", seed, 1, load)
        given = cluster_run.cluster(
            trace(seed, minutes), topology, workload_table.read(), 0, minutes, setting
        )
        for one in who:
            result = cluster_run.run(given, one, how)
            found[load, one].append(float(result.figures["utilisation_alone"]))
    return found


def run(request: Request) -> Evidence:
    """Compare on every fabric at every load, and once more with late and wrong plans."""
    loads, seeds, minutes, names = LOADS, SEEDS, MINUTES, tuple(FABRICS)
    if request.quick:
        loads, seeds, minutes, names = QUICK_LOADS, QUICK_SEEDS, QUICK_MINUTES, QUICK_FABRICS
    late = tuple(load for load in loads if load in LATE_LOADS)
    lines: list[Line] = []
    curves: list[Curve] = []
    every: list[float] = []
    for fabric in names:
        exact = shares(fabric, loads, seeds, minutes, request=request)
        how = cluster_run.How(8, LATE)
        wrong = shares(fabric, late, seeds, minutes, WHO[1:], how, request)
        for load in loads:
            lines += _lines(f"{fabric}, traffic times {load:g}", load, exact)
            every.append(float(np.mean(_gains(load, exact))))
        for load in late:
            words = f"{fabric}, traffic times {load:g}, 20 % error, 20 s lag"
            lines += _lines(words, load, wrong)
        curves += [
            Curve(
                panel=f"utilisation over alone, {fabric}",
                label=one,
                x=tuple(loads),
                y=tuple(float(np.mean(exact[load, one])) for load in loads),
                x_label="traffic, times the workload table's",
                y_label="utilisation over alone",
            )
            for one in WHO
        ]
    lines.append(
        Line(
            setting="all fabrics and loads",
            figure="hostcc above crux-full, mean",
            published=None,
            here=float(np.mean(every)),
            bar=f"at least {GOAL}",
            met=bool(np.mean(every) >= GOAL),
        )
    )
    return Evidence(
        lines=tuple(lines),
        missing=("jobs and fabrics are ours: no source has these figures",),
        curves=tuple(curves),
    )


def _gains(load: float, found: Shares) -> list[float]:
    """Return hostcc's share over Crux's, of each seed."""
    gains: list[float] = np.subtract(found[load, "hostcc"], found[load, "crux-full"]).tolist()
    return gains


def _lines(setting: str, load: float, found: Shares) -> list[Line]:
    lines = [
        Line(
            setting=setting,
            figure=f"utilisation over alone, {one}",
            published=None,
            here=float(np.mean(found[load, one])),
        )
        for one in WHO
        if (load, one) in found
    ]
    gains = _gains(load, found)
    for figure, value in (("mean", float(np.mean(gains))), ("least", min(gains))):
        lines.append(
            Line(
                setting=setting,
                figure=f"hostcc above crux-full, {figure} of the seeds",
                published=None,
                here=value,
                bar=f"not below {LEAST}",
                met=value >= LEAST,
            )
        )
    return lines


STUDIES = (Study("crux-load", "none", "hostcc beside Crux-full against load", run),)
