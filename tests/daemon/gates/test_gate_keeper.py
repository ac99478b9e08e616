"""Which gates are closed: by own events and by notes, within period and budget, liars or not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.daemon.gates.gate_keeper import GateKeeper
from hostcc.daemon.gates.gate_notes import MAX_MS, GateNote, Over, Sending, Waiting
from hostcc.daemon.gates.job_gates import BurstEvent
from hostcc.schedule.gates.groups import Exchange, GatePlan, group
from hostcc.schedule.gates.hold_budget import WINDOW_S
from hostcc.schedule.gates.lone_bursts import KEPT_BURSTS, MIN_BURSTS

pytestmark = pytest.mark.unit

BURST_S, PERIOD_S, SHARE = 0.08, 0.3, 0.05
EXCHANGE = Exchange(PERIOD_S, BURST_S, BURST_S, 0.9)
THREE = group(dict.fromkeys("abc", EXCHANGE), [("a", "b"), ("b", "c"), ("a", "c")])
BEGIN, HELD, OPENED, END = BurstEvent


def keeper(*own: str) -> GateKeeper:
    made = GateKeeper(SHARE)
    made.follow(THREE, own or ("a",))
    return made


def closed_s(of: GateKeeper, job: str, now_s: float) -> float:
    """For how long, at most."""
    return of.closed_until_s(job, now_s) - now_s


def test_two_jobs_of_one_host_need_no_news() -> None:
    host = keeper("a", "b")
    assert host.burst("a", BEGIN, 10.0, 10.0) == Sending("a", 80, 0)
    assert closed_s(host, "b", 10.0) == pytest.approx(1.5 * BURST_S)
    assert host.burst("b", HELD, 10.02, 10.02) == Waiting("b", 80, 0)
    assert closed_s(host, "a", 10.02) == 0
    assert host.burst("a", END, 10.07, 10.07) == Over("a", 0)
    assert closed_s(host, "b", 10.07) == 0
    assert closed_s(host, "a", 10.07) > 0, "b comes first"
    assert host.burst("b", OPENED, 10.071, 10.071) == Sending("b", 80, 0)
    assert closed_s(host, "a", 10.071) == pytest.approx(1.5 * BURST_S)


def test_news_of_other_hosts() -> None:
    host = keeper("a")
    assert host.hear(Sending("b", 80, 0), 10.0)
    assert closed_s(host, "a", 10.0) == pytest.approx(1.5 * BURST_S)
    assert host.hear(Waiting("c", 80, 0), 10.01)
    assert host.hear(Over("b", 0), 10.05)
    assert 0 < closed_s(host, "a", 10.05) < BURST_S
    assert host.hear(Sending("a", 80, 0), 10.06), "what the first host of the own job says"
    assert closed_s(host, "a", 10.06) == 0


def test_who_is_no_rival_is_not_heard() -> None:
    host = keeper("a")
    assert not host.hear(Sending("z", 80, 0), 10.0)
    assert keeper("z").burst("z", BEGIN, 10.0, 10.0) is None
    assert closed_s(host, "z", 10.0) == 0


def test_jobs_in_step_part_whatever_those_of_other_links_do() -> None:
    """Two pairs on two links, all begun together: d lets its rival c go first, not a."""
    host = GateKeeper(SHARE)
    host.follow(group(dict.fromkeys("abcd", EXCHANGE), [("a", "b"), ("c", "d")]), "ad")
    host.burst("a", BEGIN, 10.0, 10.0)
    host.hear(Sending("b", 80, 0), 10.001)
    host.hear(Sending("c", 80, 0), 10.002)
    host.burst("d", BEGIN, 10.003, 10.003)
    host.hear(Over("b", 0), 10.16)
    host.hear(Over("c", 0), 10.16)
    host.burst("a", END, 10.16, 10.16)
    host.burst("d", END, 10.16, 10.16)
    assert closed_s(host, "a", 10.29) == 0
    assert closed_s(host, "d", 10.29) > 0
    host.hear(Sending("c", 80, 0), 10.3)
    host.hear(Over("c", 0), 10.38)
    assert closed_s(host, "d", 10.38) == 0


def test_a_long_burst_is_not_believed() -> None:
    host = keeper("a")
    host.hear(Sending("b", MAX_MS, 0), 10.0)
    assert closed_s(host, "a", 10.0) == pytest.approx(1.5 * BURST_S)


def test_no_hold_is_longer_than_a_period() -> None:
    host = keeper("a")
    host.hear(Sending("b", 80, 0), 10.0)
    host.burst("a", HELD, 10.0, 10.0)
    for step in range(1, 6):  # others begin again and again
        host.hear(Sending("bc"[step % 2], 80, 0), 10.0 + 0.05 * step)
    assert closed_s(host, "a", 10.2) == pytest.approx(10.0 + PERIOD_S - 10.2)
    assert closed_s(host, "a", 10.0 + PERIOD_S) == 0


def test_budget_is_exhausted_and_comes_back() -> None:
    host, now_s = keeper("a"), 100.0
    for _ in range(100):
        if host.exhausted("a", now_s):
            break
        host.hear(Sending("b", 80, 0), now_s)
        host.burst("a", HELD, now_s, now_s)
        now_s += 0.1
        host.burst("a", OPENED, now_s, now_s)
    host.hear(Sending("b", 80, 0), now_s)
    assert host.exhausted("a", now_s)
    assert closed_s(host, "a", now_s) == 0
    now_s += WINDOW_S
    host.hear(Sending("b", 80, 0), now_s)
    assert not host.exhausted("a", now_s)
    assert closed_s(host, "a", now_s) > 0


def test_a_host_that_is_late_holds_nobody() -> None:
    host = keeper("a")
    for step in range(20):
        host.burst("a", BEGIN, 10.0 + step, 10.05 + step)
        host.burst("a", END, 10.1 + step, 10.15 + step)
    host.hear(Sending("b", 80, 0), 40.0)
    assert closed_s(host, "a", 40.0) == 0
    for step in range(20):
        host.burst("a", BEGIN, 50.0 + step, 50.001 + step)
        host.burst("a", END, 50.1 + step, 50.101 + step)
    host.hear(Sending("b", 80, 0), 80.0)
    assert closed_s(host, "a", 80.0) > 0


def test_nobody_waits_for_a_host_that_is_late() -> None:
    host = keeper("a")
    host.hear(Sending("b", 80, 30), 10.0)
    assert closed_s(host, "a", 10.0) == pytest.approx(1.5 * BURST_S - 0.03), "it has begun before"
    host.hear(Over("b", 100), 10.1)
    host.hear(Sending("b", 80, 30), 11.0)
    assert closed_s(host, "a", 11.0) == 0
    host.hear(Sending("c", 80, 0), 11.0)
    assert closed_s(host, "a", 11.0) > 0


def test_how_long_a_burst_takes_alone() -> None:
    host = keeper("a", "b")
    for turn in range(MIN_BURSTS):
        host.burst("a", BEGIN, 10.0 + turn, 10.0 + turn)
        host.burst("a", END, 10.1 + turn, 10.1 + turn)
        # Never alone: by what another host tells, and beside a job of its own host.
        host.burst("b", BEGIN, 10.2 + turn, 10.2 + turn)
        host.hear(Sending("c", 80, 0), 10.22 + turn)
        host.burst("b", END, 10.25 + turn, 10.25 + turn)
        host.hear(Over("c", 0), 10.3 + turn)
    assert host.lone_bursts_s() == {"a": pytest.approx(0.1)}
    for turn in range(KEPT_BURSTS):
        host.burst("b", BEGIN, 50.0 + turn, 50.0 + turn)
        host.burst("a", BEGIN, 50.01 + turn, 50.01 + turn)
        host.burst("b", END, 50.1 + turn, 50.1 + turn)
        host.burst("a", END, 50.2 + turn, 50.2 + turn)
    assert host.lone_bursts_s() == {"a": pytest.approx(0.1)}
    host.follow({}, ())
    assert host.lone_bursts_s() == {}


def test_jobs_that_leave_hold_nobody() -> None:
    host = keeper("a")
    host.hear(Sending("b", 80, 0), 10.0)
    host.follow({"a": GatePlan(EXCHANGE, ("c",))}, ["a"])
    assert closed_s(host, "a", 10.0) == 0
    host.follow({}, ())
    assert host.own == frozenset()


MS = st.integers(0, MAX_MS)
NOTE = st.one_of(
    st.builds(Sending, st.sampled_from("bc"), MS, MS),
    st.builds(Waiting, st.sampled_from("bc"), MS, MS),
    st.builds(Over, st.sampled_from("bc"), MS),
)


@given(st.lists(st.tuples(st.floats(0, 0.2), NOTE), max_size=200), st.floats(0, 0.3))
def test_liars_cost_no_more_than_the_share(
    notes: list[tuple[float, GateNote]], compute_s: float
) -> None:
    """The job begins, is held as long as its gate is closed, sends, computes, begins again."""
    host, now_s, begins_s, held_s = keeper("a"), 0.0, 0.0, 0.0
    since_s: float | None = None
    for later_s, note in notes:
        until_s = now_s + later_s
        while now_s < until_s:
            opens_s = host.closed_until_s("a", now_s)
            if since_s is None and begins_s <= now_s:
                if opens_s <= now_s:
                    host.burst("a", BEGIN, now_s, now_s)
                    host.burst("a", END, now_s, now_s)
                    begins_s = now_s + compute_s + 0.01
                else:
                    host.burst("a", HELD, now_s, now_s)
                    since_s = now_s
            elif since_s is not None and opens_s <= now_s:
                host.burst("a", OPENED, now_s, now_s)
                host.burst("a", END, now_s, now_s)
                held_s += now_s - since_s
                since_s, begins_s = None, now_s + compute_s + 0.01
            now_s += 0.01
        host.hear(note, now_s)
    assert held_s <= SHARE * max(now_s, WINDOW_S) + 0.05
