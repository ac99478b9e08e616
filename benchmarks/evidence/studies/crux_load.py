"""hostcc beside Crux-full against load: random jobs on a small Clos, traffic times 0.5 to 5.

No source has these figures. They show at which loads hostcc's order, and its fallback where links
are offered more than they carry, are worth more or less than Crux's.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.evidence.document import Curve, Evidence, Line, Request, Study
from hostcc.sim import cluster_run, fabrics, workload_table
from hostcc.sim.cluster_conditions import Conditions
from hostcc.sim.cluster_jobs import Setting
from hostcc.sim.released import Trace, TracedHost, TracedJob

LOADS: tuple[float, ...] = (0.5, 1.0, 2.0, 3.5, 5.0)
QUICK_LOADS: tuple[float, ...] = (5.0,)
SEEDS, QUICK_SEEDS = 5, 1
JOBS, HOSTS, TORS, AGGS = 20, 64, 16, 4
HOSTS_OF_JOB = (2, 2, 4, 4, 8)
MINUTES, QUICK_MINUTES = 2, 1
GBIT = 200.0
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
        TracedHost(f"h{at}", "P", f"P/T{at * TORS // HOSTS}", True) for at in range(HOSTS)
    )
    return Trace(tuple(jobs), hosts_of, {}, {})


def shares(
    loads: Sequence[float],
    seeds: int,
    minutes: int,
    who: Sequence[str] = WHO,
    how: cluster_run.How | None = None,
    request: Request | None = None,
) -> Shares:
    """Replay every load and seed under each scheduler."""
    rates = {"nic": GBIT * fabrics.GBIT, "agg": GBIT * fabrics.GBIT}
    topology = fabrics.two_layer("load", HOSTS, TORS, AGGS, 4, rates)
    found: dict[tuple[float, str], list[float]] = {(load, one): [] for load in loads for one in who}
    for number, (load, seed) in enumerate((load, seed) for load in loads for seed in range(seeds)):
        if request is not None:
            request.tell("loads", number, len(loads) * seeds)
        setting = Setting("none", seed, 1, load)
        given = cluster_run.cluster(
            trace(seed, minutes), topology, workload_table.read(), 0, minutes, setting
        )
        for one in who:
            result = cluster_run.run(given, one, how)
            found[load, one].append(float(result.figures["utilisation_alone"]))
    return found


def run(request: Request) -> Evidence:
    """Compare at every load, and once more with late and wrong plans."""
    loads, seeds, minutes = LOADS, SEEDS, MINUTES
    if request.quick:
        loads, seeds, minutes = QUICK_LOADS, QUICK_SEEDS, QUICK_MINUTES
    exact = shares(loads, seeds, minutes, request=request)
    late = tuple(load for load in loads if load in LATE_LOADS)
    wrong = shares(late, seeds, minutes, WHO[1:], cluster_run.How(8, LATE), request)
    lines = []
    for words, some, found in (("", loads, exact), (", 20 % error, 20 s lag", late, wrong)):
        for load in some:
            gains = np.subtract(found[load, "hostcc"], found[load, "crux-full"])
            setting = f"traffic times {load:g}{words}"
            lines += [
                Line(
                    setting=setting,
                    figure=f"utilisation over alone, {one}",
                    published=None,
                    here=float(np.mean(found[load, one])),
                )
                for one in WHO
                if (load, one) in found
            ]
            lines.append(
                Line(
                    setting=setting,
                    figure="hostcc above crux-full, least of the seeds",
                    published=None,
                    here=float(gains.min()),
                    bar=f"not below {LEAST}",
                    met=bool(gains.min() >= LEAST),
                )
            )
    every = [
        np.mean(np.subtract(exact[load, "hostcc"], exact[load, "crux-full"])) for load in loads
    ]
    lines.append(
        Line(
            setting="all loads",
            figure="hostcc above crux-full, mean",
            published=None,
            here=float(np.mean(every)),
            bar=f"at least {GOAL}",
            met=bool(np.mean(every) >= GOAL),
        )
    )
    return Evidence(
        lines=tuple(lines),
        missing=("jobs and fabric are ours: no source has these figures",),
        curves=tuple(
            Curve(
                panel="utilisation over alone, by load",
                label=one,
                x=tuple(loads),
                y=tuple(float(np.mean(exact[load, one])) for load in loads),
                x_label="traffic, times the workload table's",
                y_label="utilisation over alone",
            )
            for one in WHO
        ),
    )


STUDIES = (Study("crux-load", "none", "hostcc beside Crux-full against load", run),)
