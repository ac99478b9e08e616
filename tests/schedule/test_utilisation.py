"""Utilisation, risk of contention and loads: worked out by hand, and bounds for any view."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from hostcc.errors import NoJobError
from hostcc.model import ClusterView, Flow, Path, PathTable
from hostcc.schedule import utilisation
from hostcc.schedule.explain import explain
from hostcc.schedule.link_load import link_loads
from hostcc.schedule.link_rows import list_links, own_links
from hostcc.schedule.plan import Options, Solution, solve
from tests.schedule.paths import problems
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit


def shared(**first: float) -> Solution:
    """Jobs a and b compute 1 s and send 1 s over one link; a's work is four times b's."""
    return solve(one_link([job("a", work=4.0, **first), job("b", work=1.0)], [1.0, 1.0]))


def two_spines(*paths: str) -> ClusterView:
    """As many jobs, each between other hosts of two racks with two spines."""
    tables, flows, links = [], [], {f"{spine}>": 1.0 for spine in "st"}
    for at, path in enumerate(paths):
        ends = f"h{at}", f"k{at}"
        links |= {f"{ends[0]}>": 1.0, f">{ends[1]}": 1.0}
        ways = (Path(spine, (f"{ends[0]}>", f"{spine}>", f">{ends[1]}")) for spine in "st")
        tables.append(PathTable(*ends, tuple(ways)))
        flows.append(Flow(f"f{at}", f"j{at}", *ends, 1.0, path=path))
    jobs = tuple(job(f"j{at}") for at in range(len(paths)))
    return ClusterView(jobs, tuple(flows), tuple(tables), tuple(links.items()), digest="d")


def test_two_jobs_that_take_turns_lose_nothing() -> None:
    found = shared()
    speed = utilisation.predicted_speeds(found)
    assert speed.tolist() == [1.0, 1.0]
    value, by_work = utilisation.values(found)
    assert (value.tolist(), by_work) == ([2.0, 0.5], True)
    assert utilisation.share(value, speed) == 1.0


def test_speeds_are_those_of_the_explanation() -> None:
    found = solve(one_link([job(name, compute=0.2) for name in "abc"], [1.0, 2.0, 3.0]))
    speed = utilisation.predicted_speeds(found)
    assert speed.tolist() == [explain(found, name).speed for name in "abc"]
    assert speed.min() < 1


def test_measured_is_time_alone_over_the_measured_iteration() -> None:
    found = shared()
    jobs = [job("a", period_s=2.5), job("b", period_s=1.9)]
    speed = utilisation.measured_speeds(found, jobs)
    assert speed.tolist() == [0.8, 1.0]  # faster than alone is noise
    value, _ = utilisation.values(found)
    assert utilisation.share(value, speed) == pytest.approx((2.0 * 0.8 + 0.5) / 2.5)
    guessed = [job("a", period_s=2.5, confidence=0.0), job("b"), job("gone", period_s=1.0)]
    speed = utilisation.measured_speeds(found, guessed)
    assert np.isnan(speed).all()
    assert utilisation.share(value, speed) is None


def test_jobs_without_a_path_are_left_out() -> None:
    view = one_link([job("a"), job("b")], [1.0, 1.0])
    found = solve(replace(view, flows=(view.flows[0], replace(view.flows[1], dst="elsewhere"))))
    assert np.isnan(utilisation.predicted_speeds(found)).tolist() == [False, True]
    assert np.isnan(utilisation.measured_speeds(found, [job("b", period_s=3.0)])).all()
    assert utilisation.losses_to_first(found, "b") is None


def test_without_any_work_jobs_count_by_their_gpus() -> None:
    jobs = [replace(job("a", work=0.0), gpus=3.0), replace(job("b", work=0.0), gpus=0.0)]
    value, by_work = utilisation.values(solve(one_link(jobs, [1.0, 1.0])))
    assert (value.tolist(), by_work) == ([3.0, 1.0], False)


def test_who_could_meet_is_at_risk_though_the_plan_keeps_them_apart() -> None:
    found = solve(two_spines("s", "t"))
    risky = utilisation.at_risk(found)
    assert risky.tolist() == [True, True]
    speed = utilisation.predicted_speeds(found)
    assert utilisation.relieved(risky, speed).tolist() == [True, True]
    assert utilisation.at_risk(solve(two_spines("s"))).tolist() == [False]


def test_links_that_jobs_cannot_fill_are_no_risk() -> None:
    view = two_spines("s", "t")
    wide = tuple((link, 2.0 if link in ("s>", "t>") else 1.0) for link, _ in view.links)
    assert utilisation.at_risk(solve(replace(view, links=wide))).tolist() == [False, False]


def test_a_risk_that_is_not_relieved() -> None:
    found = solve(one_link([job(name, compute=0.1) for name in "ab"], [1.0, 1.0]))
    risky, speed = utilisation.at_risk(found), utilisation.predicted_speeds(found)
    assert risky.tolist() == [True, True]
    assert sorted(utilisation.relieved(risky, speed).tolist()) == [False, True]


def test_what_others_lose_while_one_goes_first() -> None:
    found = solve(one_link([job("a", compute=0.1, work=9.0), job("b", compute=0.1)], [1.0, 1.0]))
    assert found.decision.rank.tolist() == [0, 1]
    lost = utilisation.losses_to_first(found, "b")
    assert lost is not None
    assert lost[1] == 0.0
    below = explain(found, "b").contenders[0].loses
    assert lost[0] == pytest.approx(1 - 1 / (1 + below))  # equal jobs: one loses as the other did
    first = utilisation.losses_to_first(found, "a")
    assert first is not None
    assert not first.any()  # it goes first anyway
    assert utilisation.losses_to_first(found, "nobody") is None


def test_loads_of_links() -> None:
    found = solve(two_spines("s", "s", "t"), Options(paths="stay"))
    loads = link_loads(found)
    by_name = dict(zip(found.problem.link_ids, loads.total.tolist(), strict=True))
    assert by_name["s>"] == 1.0
    assert by_name["t>"] == 0.5
    listed = list_links(found, "d", 10)
    (row,) = listed.links
    assert (row.link, row.capacity, row.load, row.full, row.jobs) == ("s>", 1.0, 1.0, True, 2)
    assert [(one.job, one.load) for one in row.sharing] == [("j0", 0.5), ("j1", 0.5)]
    every = list_links(found, "d", 2, every=True)
    assert (every.total, len(every.links), every.links[0].link) == (8, 2, "s>")
    assert list_links(found, "d", 9, "j2").links == ()
    assert [one.link for one in list_links(found, "d", 9, "j0").links] == ["s>"]
    with pytest.raises(NoJobError, match="no job 'x' among the 3"):
        list_links(found, "d", 9, "x")
    (own,) = own_links(found, "h0")
    assert (own.link, own.load, own.capacity, own.jobs) == ("s>", 1.0, 1.0, 2)
    assert own_links(found, "h2") == own_links(found, "nobody") == ()


def test_an_empty_view() -> None:
    found = solve(ClusterView())
    value, _ = utilisation.values(found)
    assert utilisation.share(value, utilisation.predicted_speeds(found)) is None
    assert not utilisation.at_risk(found).any()
    assert list_links(found, "", 9).links == ()


@given(problems.views())
@settings(max_examples=25, deadline=None)
def test_bounds_of_any_view(view: ClusterView) -> None:
    found = solve(view, Options(simulations=0))
    loads, speed = link_loads(found), utilisation.predicted_speeds(found)
    risky = utilisation.at_risk(found)
    known = ~np.isnan(speed)
    assert ((speed[known] > 0) & (speed[known] <= 1)).all()
    value, _ = utilisation.values(found)
    share = utilisation.share(value, speed)
    assert share is None or 0 < share <= 1 + 1e-9
    assert not (utilisation.relieved(risky, speed) & ~risky).any()
    met = np.zeros(found.problem.job_count, bool)
    met[found.met.one] = met[found.met.other] = True
    assert risky[met].all()  # who meets somebody by the plan could
    assert loads.total.sum() == pytest.approx(loads.load.sum())
    assert (loads.jobs[loads.full] > 1).all()
    for name in found.problem.job_ids:
        lost = utilisation.losses_to_first(found, name)
        assert lost is None or ((lost >= 0) & (lost < 1)).all()


def test_risks_are_the_same_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    found = solve(two_spines(*"stsst"))
    whole = utilisation.at_risk(found)
    monkeypatch.setattr(utilisation, "LINKS_AT_ONCE", 1)
    assert whole.all()
    assert np.array_equal(utilisation.at_risk(found), whole)
