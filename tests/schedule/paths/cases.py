"""Fabrics and traffic that the tests of path choice share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.clos import Clos, Flows
from hostcc.schedule.paths.fabric import Fabric

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "paths.json").read_text()
)["cases"]


def ragged(capacity: Sequence[float], tables: Sequence[Sequence[Sequence[int]]]) -> Fabric:
    """A Fabric from lists: for each table its candidates, for each of those its links."""
    links = len(capacity)
    width = max(len(paths) for paths in tables)
    hops = max(len(path) for paths in tables for path in paths)
    table = np.full((len(tables), width, max(1, hops)), links + 1, np.int64)
    for row, paths in zip(table, tables, strict=True):
        for slot, path in zip(row, paths, strict=False):
            slot[:] = links
            slot[: len(path)] = path
    return fabrics.make(np.array(capacity, np.float64), table)


def golden(case: dict[str, Any]) -> tuple[Clos, Flows]:
    src, dst, demand = np.array(case["commodities"]).T
    flows = Flows(src.astype(np.int64), dst.astype(np.int64), demand)
    return closes.uniform(case["tors"], case["spines"]), flows


def random_flows(seed: int, tors: int, count: int, *, unequal: bool = False) -> Flows:
    generator = np.random.default_rng(seed)
    src = generator.integers(0, tors, count)
    dst = (src + generator.integers(1, tors, count)) % tors
    demand = generator.integers(1, 11, count).astype(np.float64) if unequal else np.ones(count)
    return Flows(src, dst, demand)


def degree(flows: Flows) -> int:
    """The largest number of flows that one ToR sends or receives."""
    outward = flows.src != flows.dst
    ends = (flows.src[outward], flows.dst[outward])
    return int(max(np.bincount(end, minlength=1).max() for end in ends))


@st.composite
def fabrics_and_flows(draw: st.DrawFn, *, equal: bool = False) -> tuple[Clos, Flows]:
    """A small Clos, some links of which may have failed, and flows that it can carry."""
    tors, spines = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    cells = st.lists(
        st.sampled_from([0.0, 1.0, 1.0, 1.0, 2.5]), min_size=tors * spines, max_size=tors * spines
    )
    up = np.array(draw(cells)).reshape(tors, spines)
    down = np.array(draw(cells)).reshape(tors, spines)
    up[:, 0] = down[:, 0] = 1.0  # every pair has a path
    ends = st.integers(0, tors - 1)
    sizes = st.just(3.0) if equal else st.floats(0, 1e6) | st.integers(0, 9).map(float)
    rows = draw(st.lists(st.tuples(ends, ends, sizes), max_size=24))
    src = np.array([row[0] for row in rows], np.int64)
    dst = np.array([row[1] for row in rows], np.int64)
    return closes.make(up, down), Flows(src, dst, np.array([row[2] for row in rows], np.float64))
