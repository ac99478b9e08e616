"""What is taken over from the solution before changes no byte of a plan."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.model import ClusterView, Flow, Path, PathTable, Plan
from hostcc.schedule import job_pairs, order, reuse
from hostcc.schedule import plan as plans
from hostcc.schedule.errors import ViewError
from hostcc.schedule.plan import Options, Solution, solve
from hostcc.schedule.plan_writer import write_plan
from hostcc.schedule.problem import build, read
from tests.schedule.test_plan import many, shuffled
from tests.schedule.views import job, one_link

pytestmark = [pytest.mark.unit, pytest.mark.slow]

OPTIONS = Options(levels=5, simulations=0)


def placed(view: ClusterView, made: Plan) -> ClusterView:
    """The view when flows are where a plan has them; nothing in it is the same object."""
    on = {one.flow: one.path for one in made.flows}
    flows = tuple(dataclasses.replace(f, path=on.get(f.id, f.path)) for f in view.flows)
    return dataclasses.replace(view, flows=flows)


def changed(view: ClusterView, rng: random.Random) -> ClusterView:
    """One thing, or a few, have happened."""
    parts: dict[str, list[Any]] = {
        name: list(getattr(view, name)) for name in ("jobs", "flows", "tables", "links")
    }
    for _ in range(rng.choice((1, 1, 1, 3))):
        what = rng.randrange(9)
        if what == 0 and parts["jobs"]:
            gone = rng.choice(parts["jobs"]).job
            parts["jobs"] = [one for one in parts["jobs"] if one.job != gone]
            parts["flows"] = [one for one in parts["flows"] if one.job != gone]
        elif what in (1, 2):
            name = f"job{rng.randrange(99)}-{rng.randrange(10**6)}"
            parts["jobs"].append(job(name, compute=rng.uniform(0.3, 2), work=rng.uniform(1, 9)))
            for number in range(rng.randrange(4)):
                src, dst = rng.sample(range(9), 2)
                size = rng.choice((0.0, 0.1))
                parts["flows"].append(Flow(f"{name}.{number}", name, f"t{src}", f"t{dst}", size))
        elif what == 3 and parts["jobs"]:
            at = rng.randrange(len(parts["jobs"]))
            new: Any = rng.choice(
                ({"compute_s": 0.7}, {"work": 5.0}, {"period_s": 1.0, "phase_s": 0.2})
            )
            parts["jobs"][at] = dataclasses.replace(parts["jobs"][at], **new)
        elif what == 4 and parts["flows"]:
            at = rng.randrange(len(parts["flows"]))
            new = rng.choice(({"bytes": 0.3}, {"path": "s1"}, {"path": ""}, {"dst": "t0"}))
            parts["flows"][at] = dataclasses.replace(parts["flows"][at], **new)
        elif what == 5 and parts["tables"]:
            at = rng.randrange(len(parts["tables"]))
            table = parts["tables"][at]
            parts["tables"][at] = dataclasses.replace(table, paths=table.paths[1:])
        elif what == 6 and parts["tables"]:
            del parts["tables"][rng.randrange(len(parts["tables"]))]
        elif what == 7 and parts["links"]:
            at = rng.randrange(len(parts["links"]))
            link, _ = parts["links"][at]
            parts["links"][at] = (link, rng.choice((0.0, 1.0, 2.0)))
        else:
            name = f"new{rng.randrange(10**6)}"
            parts["links"].append((name, 1.0))
            parts["tables"] = [
                dataclasses.replace(one, paths=(*one.paths, Path(name, (name,))))
                if rng.random() < 0.1
                else one
                for one in parts["tables"]
            ]
    kept = {name: tuple(values) for name, values in parts.items()}
    return dataclasses.replace(view, **kept)  # type: ignore[arg-type]


def same(one: Solution, other: Solution) -> None:
    for field in dataclasses.fields(one.problem):
        a, b = getattr(one.problem, field.name), getattr(other.problem, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, field.name
            assert a.tobytes() == b.tobytes(), field.name
        else:
            assert a == b, field.name
    assert one.decision.rank.tobytes() == other.decision.rank.tobytes()
    assert one.level.tobytes() == other.level.tobytes()
    assert one.met.one_seconds.tobytes() == other.met.one_seconds.tobytes()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([1, 30, 10**9]))
def test_any_sequence_of_changes(seed: int, jobs: int, threshold: int) -> None:
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        # Thresholds of large clusters, so that what is done there is done here.
        patch.setattr(order, "MAX_EXACT_LOSSES", threshold)
        patch.setattr(plans, "MAX_EXACT_CUT_PAIRS", threshold)
        patch.setattr(reuse, "MIN_JOBS_PER_CHANGE", rng.choice((0, 2, 8)))
        patch.setattr(reuse, "MAX_PAIRS", most := rng.choice((40, 10**6)))
        patch.setattr(job_pairs, "MAX_PAIRS", most)
        patch.setattr(job_pairs.pairs_on_links, "__defaults__", (most,))
        view = many(jobs, 3 * jobs, seed)
        before, last = None, None
        for _ in range(5):
            cold = solve(view, OPTIONS)
            found = solve(view, OPTIONS, before)
            same(cold, found)
            made = write_plan("d", found, before, last)
            assert msgspec.json.encode(made) == msgspec.json.encode(write_plan("d", cold))
            before, last = found, made
            view = changed(view if rng.random() < 0.3 else placed(view, made), rng)
            if rng.random() < 0.2:
                view = shuffled(view, seed)


def test_small_views_and_other_options() -> None:
    first, second = many(4, 5, 1), many(40, 160, 2)
    before = None
    for view, options in (
        (first, Options()),
        (second, Options(levels=3)),
        (first, Options(compression="algorithm1", simulations=0)),
        (second, Options(most_loss=0.2)),
        (ClusterView(), Options()),
        (second, Options(order="crux", paths="ecmp")),
        (second, Options()),
    ):
        found = solve(view, options, before)
        same(solve(view, options), found)
        assert write_plan("d", found) == write_plan("d", solve(view, options))
        before = found


def test_what_is_wrong_is_refused_after_a_good_view() -> None:
    good = one_link([job("a"), job("b")], [1.0, 2.0])
    before = read(good)
    for change in (
        {"links": (("other", 1.0),)},
        {"links": (("link", float("nan")),)},
        {"jobs": (job("a"),)},
        {"flows": good.flows * 2},
        {"tables": good.tables * 2},
        {"tables": (PathTable("a", "b", (Path("p0", ("gone",)),)),)},
    ):
        with pytest.raises(ViewError, match="expected"):
            read(dataclasses.replace(good, **change), before)


def test_tables_are_taken_over_by_what_they_say() -> None:
    view = many(20, 60)
    before = read(view)
    copies = tuple(
        PathTable(one.src, one.dst, tuple(Path(p.id, p.links) for p in one.paths))
        for one in view.tables
    )
    again = read(dataclasses.replace(view, tables=copies), before)
    assert again.tables.read is before.tables.read
    assert again.problem.path_ids == build(view).path_ids
