"""What flows say is found again wherever they stand, and read only where it has changed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from hostcc.model import Flow, Path, PathTable, SizeClass
from hostcc.schedule import flows as reading
from hostcc.schedule.errors import ViewError
from hostcc.schedule.flows import FlowColumns, fresh
from hostcc.schedule.tables import read as read_tables

pytestmark = pytest.mark.unit


def some(count: int) -> list[Flow]:
    return [
        Flow(f"f{number}", f"j{number % 5}", f"h{number % 3}", "h9", 1.0 + number)
        for number in range(count)
    ]


@pytest.mark.parametrize("scattered", [0, 1, 10**9])
@pytest.mark.parametrize("seed", range(10))
def test_found_where_it_says_the_same(
    monkeypatch: pytest.MonkeyPatch, seed: int, scattered: int
) -> None:
    monkeypatch.setattr(reading, "MIN_MEAN_RUN", scattered)
    chance = Random(seed)
    before = some(chance.randrange(60))
    changes = [
        {"bytes": 0.5},
        {"path": "p"},
        {"dst": "h8"},
        {"src": "h8"},
        {"job": "j9"},
        {"size": SizeClass.MOUSE},
        {"src_port": 9},
        {},
    ]
    now = [
        replace(flow, **(chance.choice(changes) if chance.random() < 0.3 else {}))  # type: ignore[arg-type]
        for flow in before
        if chance.random() < 0.9
    ]
    now += [Flow(f"new{number}", "j1", "h1", "h2", 1.0) for number in range(chance.randrange(4))]
    if seed % 2:
        chance.shuffle(now)
    where = {flow.id: at for at, flow in enumerate(before)}
    expected = [
        where[flow.id]
        if flow.id in where and replace(before[where[flow.id]], src_port=flow.src_port) == flow
        else -1
        for flow in now
    ]
    assert FlowColumns.of(tuple(now)).where(FlowColumns.of(tuple(before))).tolist() == expected


def test_the_first_that_is_wrong_is_named() -> None:
    flows = some(4)
    tables, _ = read_tables((), {}, set())
    jobs = {f"j{number}": number for number in range(5)}
    flows[1] = replace(flows[1], bytes=float("nan"))
    flows[2] = replace(flows[2], job="unknown")
    with pytest.raises(ViewError, match="flow: f1: bytes: expected a number >= 0, got nan"):
        fresh(FlowColumns.of(flows), np.arange(4), jobs, tables)
    with pytest.raises(ViewError, match="flow: f2: expected a known job, got 'unknown'"):
        fresh(FlowColumns.of(flows), np.array([0, 2, 1]), jobs, tables)


def test_elephants_with_a_path_by_job_and_name() -> None:
    table = PathTable("h0", "h9", (Path("b", ("x",)), Path("a", ("y",))))
    flows = [
        Flow("f3", "j1", "h0", "h9", 3.0, path="b"),
        Flow("f2", "j1", "h0", "h9", 2.0, path="c"),
        Flow("f1", "j0", "h0", "h9", 1.0),
        Flow("f4", "j0", "h0", "h9", 1.0, SizeClass.MOUSE),
        Flow("f5", "j0", "h0", "h9", 0.0),
        Flow("f6", "j2", "h1", "h9", 1.0),
    ]
    said = FlowColumns.of(flows)
    tables, _ = read_tables((table,), {"x": 1.0, "y": 1.0}, said.ends(np.arange(6)))
    found, lost = fresh(said, np.arange(6), {"j0": 0, "j1": 1, "j2": 2}, tables)
    assert found.at.tolist() == [2, 1, 0]
    assert found.job.tolist() == [0, 1, 1]
    assert found.path.tolist() == [-1, -1, 1]
    assert lost.tolist() == [False, False, True]
