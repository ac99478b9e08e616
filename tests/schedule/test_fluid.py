"""The batch simulation against exact schedules."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from hostcc.schedule.fluid import Cycle, Group, simulate
from hostcc.schedule.simulation_rows import reduce_flows
from tests.schedule.exact import cases

pytestmark = pytest.mark.unit


def of(case: Any) -> tuple[Cycle, Any]:
    jobs = case["jobs"]
    names = list(case["links"])
    rows = reduce_flows(
        len(jobs),
        [flow["job"] for flow in case["flows"]],
        [flow["bytes"] for flow in case["flows"]],
        [[names.index(link) for link in flow["links"]] for flow in case["flows"]],
        list(case["links"].values()),
    )
    fields = ("compute", "comm_start_after", "start")
    return Cycle(*(np.array([job[name] for job in jobs], float) for name in fields)), rows


@pytest.mark.parametrize("case", cases("sched"))
def test_exact(case: Any) -> None:
    cycle, rows = of(case)
    named = {name: case[name] for name in case if isinstance(case[name], dict)}
    named = {**{k: v for k, v in named.items() if "levels" in v}, **case["named"]}
    orders = [list(each) for each in permutations(range(len(case["jobs"])))]  # levels by job
    levels = [one["levels"] for one in named.values()]
    levels += orders
    found = simulate(cycle, [Group(rows, np.array(levels))], case["T0"], case["T"])
    window = case["T"] - case["T0"]
    gpus = np.array([job["gpus"] for job in case["jobs"]])
    used = found.compute_seconds @ gpus / (gpus.sum() * window)
    for index, one in enumerate(named.values()):
        assert found.compute_seconds[index] == pytest.approx(one["compute_seconds"], abs=1e-6)
        assert used[index] == pytest.approx(one["gpu_utilisation"], abs=1e-6)
        assert found.iterations[index].tolist() == one["iterations_completed"]
    for index, order in enumerate(orders):
        expected = case["all_orders"][",".join(map(str, order))]
        assert used[len(named) + index] == pytest.approx(expected, abs=1e-6)
