"""A view becomes arrays; what cannot be is refused by name."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from hostcc.model import ClusterView, Flow, Path, PathTable, SizeClass
from hostcc.schedule.errors import ViewError
from hostcc.schedule.problem import build
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit


def view() -> ClusterView:
    tables = (
        PathTable("h1", "h2", (Path("x", ("u1", "d1")), Path("y", ("u2", "d2")))),
        PathTable("h2", "h1", (Path("x", ("u1", "dead")), Path("z", ("u2",)))),
        PathTable("h1", "h3", (Path("x", ("dead",)),)),
    )
    flows = (
        Flow("f2", "b", "h1", "h2", 5.0, path="y"),
        Flow("f1", "b", "h2", "h1", 4.0, path="x"),
        Flow("f3", "a", "h1", "h2", 3.0),
        Flow("f4", "a", "h1", "h2", 3.0, SizeClass.MOUSE),
        Flow("f5", "c", "h1", "h3", 3.0),
        Flow("f6", "d", "h1", "h9", 0.0),
    )
    jobs = (job("b", gpus=2.0), job("a"), job("c"), job("d"))
    links = (("u2", 1.0), ("u1", 2.0), ("d1", 3.0), ("d2", 4.0), ("dead", 0.0))
    return ClusterView(jobs, flows, tables, links, ("h1", "h2"), "digest")


def test_everything_in_its_order() -> None:
    problem = build(view())
    assert problem.job_ids == ("a", "b", "c", "d")
    assert problem.flow_ids == ("f3", "f1", "f2")
    assert problem.link_ids == ("d1", "d2", "u1", "u2")
    assert problem.capacity.tolist() == [3.0, 4.0, 2.0, 1.0]
    assert problem.flow_job.tolist() == [0, 1, 1]
    assert problem.gpus.tolist() == [8, 2, 8, 8]
    assert problem.blind.tolist() == [False, False, True, False]
    # Tables by (source, destination): h1-h2 (x, y), h1-h3 (nothing left), h2-h1 (z).
    assert problem.table_start.tolist() == [0, 2, 2, 3]
    assert problem.path_ids == ("x", "y", "z")
    assert problem.flow_table.tolist() == [0, 2, 0]
    assert problem.flow_path.tolist() == [-1, -1, 1]
    assert problem.path_links[problem.path_start[1] : problem.path_start[2]].tolist() == [1, 3]


def test_a_link_of_next_to_nothing_has_failed() -> None:
    links = tuple((name, rate or 5e-324) for name, rate in view().links)
    problem = build(dataclasses.replace(view(), links=links))
    assert problem.link_ids == build(view()).link_ids
    assert problem.path_ids == build(view()).path_ids


def test_parts_in_any_order_make_the_same_arrays() -> None:
    expected = build(view())
    rng = random.Random(1)
    for _ in range(20):
        parts = {}
        for name in ("jobs", "flows", "tables", "links"):
            items = list(getattr(view(), name))
            rng.shuffle(items)
            parts[name] = tuple(items)
        found = build(dataclasses.replace(view(), **parts))  # type: ignore[arg-type]
        for field in dataclasses.fields(expected):
            one, other = getattr(expected, field.name), getattr(found, field.name)
            if isinstance(one, np.ndarray):
                assert one.dtype == other.dtype
                assert one.tobytes() == other.tobytes(), field.name
            else:
                assert one == other


def test_nothing_is_a_problem_too() -> None:
    problem = build(ClusterView())
    assert (problem.job_count, problem.flow_count, problem.link_count) == (0, 0, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"jobs": (job("a", compute=float("nan")),)}, "job: a: compute: expected"),
        ({"jobs": (job("a", work=-1.0),)}, "job: a: work: expected"),
        ({"jobs": (job("a", gpus=float("inf")),)}, "job: a: gpus: expected"),
        ({"jobs": (job("a"), job("a"))}, "job: a: expected once"),
        ({"links": (("link", -1.0),)}, "link: link: capacity"),
        ({"links": (("link", float("nan")),)}, "link: link: capacity"),
        ({"links": (("link", 1.0), ("link", 2.0))}, "link: link: expected once"),
        ({"links": (("other", 1.0),)}, "path: of a to b: expected known links, got 'link'"),
        ({"flows": (Flow("f", "zz", "a", "b", 1.0),)}, "flow: f: expected a known job"),
        ({"flows": (Flow("f", "a", "a", "b", float("nan")),)}, "flow: f: bytes"),
        ({"flows": (Flow("f", "a", "a", "b", 1.0),) * 2}, "flow: f: expected once"),
        ({"tables": (PathTable("a", "b", ()), PathTable("a", "b", ()))}, "path table: a to b"),
        ({"tables": (PathTable("a", "b", (Path("p", ()), Path("p", ()))),)}, "path: p: expected"),
    ],
)
def test_refused_by_name(change: dict[str, object], words: str) -> None:
    good = one_link([job("a"), job("b")], [1.0, 2.0])
    build(good)
    with pytest.raises(ViewError, match=words):
        build(dataclasses.replace(good, **change))  # type: ignore[arg-type]
