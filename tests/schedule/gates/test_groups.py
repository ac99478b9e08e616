"""Who takes turns with whom, and why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.schedule.gates import groups
from hostcc.schedule.gates.groups import Exchange, group, planned
from hostcc.schedule.plan import Options, solve
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit

FORTY = Exchange(period_s=0.22, burst_s=0.088, link_s=0.08, confidence=0.9)
QUICK = Options(simulations=0)


def test_two_jobs_that_fit_take_turns() -> None:
    found = group({"a": FORTY, "b": FORTY}, [("a", "b")])
    assert {name: plan.rivals for name, plan in found.items()} == {"a": ("b",), "b": ("a",)}
    assert not any(plan.reason for plan in found.values())


def test_jobs_that_do_not_fit_take_none() -> None:
    more = replace(FORTY, burst_s=0.132, link_s=0.132)
    found = group({"a": more, "b": more}, [("a", "b")])
    assert all(not plan.rivals and "120% of the time" in plan.reason for plan in found.values())


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (replace(FORTY, confidence=0.4), groups.UNMEASURED),
        (replace(FORTY, period_s=0.0), groups.UNMEASURED),
        (replace(FORTY, link_s=0.03), groups.SPARSE),
    ],
)
def test_a_job_that_is_not_known_well_is_left_alone(other: Exchange, why: str) -> None:
    found = group({"a": FORTY, "b": other}, [("a", "b")])
    assert found["b"].reason == why
    assert found["a"].rivals == ()
    assert found["a"].reason == f"no job that it meets takes turns: b: {why}"


def test_a_job_by_itself_and_one_in_a_crowd() -> None:
    small = replace(FORTY, burst_s=0.002, link_s=0.002)
    names = [f"j{number}" for number in range(groups.MAX_RIVALS + 2)]
    pairs = [(names[0], other) for other in names[1:]]
    found = group({"alone": FORTY, **dict.fromkeys(names, small)}, pairs)
    assert found["alone"].reason == groups.ALONE
    assert found[names[0]].reason == groups.CROWDED


def test_a_chain_fits_link_by_link() -> None:
    """The job in the middle meets both others, who do not meet each other."""
    chain = [("a", "b"), ("b", "c")]
    found = group(dict.fromkeys("abc", FORTY), chain)
    circle = group(dict.fromkeys("abc", FORTY), [*chain, ("a", "c")])
    assert all("120% of the time" in plan.reason for plan in circle.values())
    assert found["b"].rivals == ("a", "c")
    assert found["a"].rivals == found["c"].rivals == ("b",)


@pytest.mark.parametrize(
    ("compute_s", "burst_s", "match"),
    [
        (0.180, 0.088, True),
        (0.190, 0.088, False),
        (0.098, 0.005, False),  # it fits, but with hardly anything to spare
        (0.105, 0.005, True),
        (0.062, 0.048, False),  # the long burst does not fit between two of its own
        (0.110, 0.040, False),
        (0.020, 0.010, False),
    ],
)
def test_iterations_have_to_fit_to_each_other(
    compute_s: float, burst_s: float, *, match: bool
) -> None:
    other = Exchange(compute_s + burst_s, burst_s, burst_s, 0.9)
    found = group({"a": FORTY, "b": other}, [("a", "b")])
    expected = groups.OTHER_PERIODS if not match else ""
    assert [found[name].reason for name in "ab"] == [expected] * 2
    assert found["a"].rivals == (("b",) if match else ())


def test_of_a_plan() -> None:
    profiles = [job(name, compute=0.6, period_s=1.2) for name in ("a", "b", "c")]
    profiles[2] = replace(profiles[2], period_s=0.0)
    solution = solve(one_link(profiles, [0.3, 0.3, 0.05]), QUICK)
    found = planned(solution, {"a", "nobody"})
    assert found["a"].exchange.share == pytest.approx(1 / 3)
    assert found["a"].rivals == ("b",)
    assert found["b"].rivals == ("a",)
    assert found["c"].reason == groups.UNMEASURED
    assert planned(solution, ()) == {}
    # a's network card lets it send at two thirds of the link's rate, c's at less than half.
    profiles = [replace(profiles[0], comm_s=0.45), profiles[1], replace(profiles[1], job="c")]
    profiles[2] = replace(profiles[2], comm_s=0.3)
    found = planned(solve(one_link(profiles, [0.3, 0.3, 0.1]), QUICK), {"a"})
    exchange = found["a"].exchange
    assert exchange.period_s == pytest.approx(1.05)
    assert exchange.burst_s == pytest.approx(0.45)
    assert exchange.link_s == 0.3
    assert found["a"].rivals == ("b",)
    assert found["c"].reason == groups.SPARSE
    assert groups.hosts(solution, ["a", "c"]) == {"a": ("a",), "c": ("a",)}
