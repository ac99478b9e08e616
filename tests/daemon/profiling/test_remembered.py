"""What is remembered of jobs, how many, and when it is of use."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.daemon.profiling import remembered as r
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.model import JobProfile

pytestmark = pytest.mark.unit

JOB = LiveJob("train", 3, how="slurm: SLURM_JOB_ID", weight=2.0, flops=1e12, uid=1000)
KEY = r.JobKey("train", 1000, "slurm", 1e12)
MEASURED = JobProfile(
    "train", 1.5, 1.2, 1e12, 4.0, host="h", period_s=2.0, comm_s=0.6, slowdown=1.3,
    bytes_to=(("10.0.0.1", 6e6), ("10.0.0.2", 2e6)), confidence=0.9, phase_s=0.4, at=5.0,
)  # fmt: skip


def known(of: JobProfile = MEASURED, key: r.JobKey = KEY) -> r.RememberedJob:
    one = r.learned(key, of)
    assert one is not None
    return one


def some(name: str, uid: int = 1000) -> r.RememberedJob:
    return known(key=r.JobKey(name, uid, "slurm", None))


def test_a_job_is_recognised_by_what_is_known_at_its_first_byte() -> None:
    assert r.key_of(JOB) == KEY == known().key
    assert r.key_of(JOB._replace(uid=0)) != KEY
    assert r.key_of(JOB._replace(uid=None)) is None


def test_what_was_measured_comes_back_without_what_is_of_then() -> None:
    shares = [("10.0.0.1", 1.0)]
    assert r.recalled(known(), JOB._replace(weight=3.0), shares, "now", 9.0) == replace(
        MEASURED, host="now", weight=3.0, slowdown=1.0, phase_s=None, at=9.0, recalled=True
    )


@pytest.mark.parametrize(
    ("shares", "to"),
    [
        ([], MEASURED.bytes_to),
        ([("10.0.0.2", 0.99), ("10.0.0.9", 0.01)], MEASURED.bytes_to),
        ([("10.0.0.2", 0.5), ("10.0.0.9", 0.5)], (("10.0.0.2", 4e6), ("10.0.0.9", 4e6))),
    ],
)
def test_a_job_sends_where_it_did_unless_it_is_seen_elsewhere(
    shares: list[tuple[str, float]], to: tuple[tuple[str, float], ...]
) -> None:
    assert r.recalled(known(), JOB, shares, "h", 0.0).bytes_to == to


def test_of_many_destinations_only_the_sum_is_remembered() -> None:
    to = tuple((f"10.0.1.{number}", 1e6) for number in range(r.MAX_DESTINATIONS + 1))
    one = known(replace(MEASURED, bytes_to=to))
    assert (one.to, one.tx_bytes) == ((), 1e6 * len(to))


@pytest.mark.parametrize(
    "change",
    [{"period_s": 0.0}, {"period_s": float("nan")}, {"work": float("inf")}, {"comm_start_s": 9.0},
     {"bytes_to": (("somewhere", 1.0),)}],
)  # fmt: skip
def test_what_no_job_can_be_is_not_remembered(change: dict[str, object]) -> None:
    assert r.learned(KEY, replace(MEASURED, **change)) is None  # type: ignore[arg-type]


def test_rendezvous_traffic_is_no_beginning() -> None:
    assert not r.has_begun(known(), 0.04 * 8e6)
    assert r.has_begun(known(), 0.06 * 8e6)
    assert r.has_begun(known(replace(MEASURED, bytes_to=())), 0.0)


B = 8e6
"""Of an iteration of 2 s."""
LESS = replace(MEASURED, confidence=0.0, bytes_to=(("10.0.0.1", B / 2),))


@pytest.mark.parametrize(
    ("sent", "elapsed_s", "guess", "contradicts"),
    [
        (B, 0.0, None, False),
        (1.6 * B, 0.0, None, True),
        (2.9 * B, 2.0, None, False),
        (3.1 * B, 2.0, None, True),
        (B, 6.0, LESS, True),
        (B, 6.0, None, False),
        (2 * B, 6.0, LESS, False),
        (B, 60.0, replace(MEASURED, confidence=0.0), False),  # it paused after its start
        (B, 60.0, replace(LESS, comm_start_s=0.0), False),
        (B, 60.0, replace(LESS, period_s=0.0), False),
    ],
)
def test_a_job_is_another_one_if_it_differs_by_half(
    sent: float, elapsed_s: float, guess: JobProfile | None, *, contradicts: bool
) -> None:
    assert r.contradicts(known(), sent, elapsed_s, guess) is contradicts
    assert not r.contradicts(known(replace(MEASURED, bytes_to=())), sent, elapsed_s, guess)


def test_of_a_job_that_never_falls_silent_a_mean_rate_counts() -> None:
    steady = known(replace(MEASURED, compute_s=0.0, comm_start_s=0.0))
    assert r.contradicts(steady, B, 60.0, replace(LESS, comm_start_s=0.0))


def test_only_other_figures_are_new() -> None:
    jobs = r.RememberedJobs()
    assert jobs.keep(known())
    assert not jobs.keep(known(replace(MEASURED, period_s=2.05)))
    assert jobs.keep(known(replace(MEASURED, period_s=2.2)))
    assert jobs.keep(known(replace(MEASURED, period_s=2.2, bytes_to=(("10.0.0.1", 8e6),))))
    assert len(jobs) == 1


def test_who_comes_again_is_forgotten_last() -> None:
    jobs = r.RememberedJobs(most=9, per_uid=2)
    for name in ("a", "b"):
        jobs.keep(some(name))
    assert jobs.recall(some("a").key) == some("a")
    jobs.keep(some("c"))
    assert [one.name for one in jobs.jobs] == ["a", "c"]
    assert jobs.recall(some("b").key) is None


def test_a_crowd_of_one_user_pushes_out_nobody_else() -> None:
    jobs = r.RememberedJobs(most=6, per_uid=4)
    jobs.keep(some("roots", uid=0))
    jobs.keep(some("mine", uid=1))
    for number in range(20):
        jobs.keep(some(f"crowd-{number}", uid=1000 + number % 2))
    assert {"roots", "mine"} < {one.name for one in jobs.jobs}
    assert len(jobs) == 6


def test_what_is_read_late_is_older_than_what_was_measured_meanwhile() -> None:
    jobs = r.RememberedJobs(most=3)
    jobs.keep(known())
    jobs.add_older([some("a", 0), some("b", 0), some("c", 0)])
    assert [one.name for one in jobs.jobs] == ["b", "c", "train"]


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from("kr"), st.integers(0, 5), st.integers(0, 3)), max_size=60),
    st.integers(1, 8), st.integers(1, 4),
)  # fmt: skip
def test_bounds_hold_whatever_comes(
    steps: list[tuple[str, int, int]], most: int, per_uid: int
) -> None:
    jobs = r.RememberedJobs(most, per_uid)
    for what, number, uid in steps:
        one = some(f"job-{number}", uid)
        if what == "k":
            jobs.keep(one)
            assert jobs.jobs[-1] == one
        elif jobs.recall(one.key) is not None:
            assert jobs.jobs[-1] == one
        held = [one.uid for one in jobs.jobs]
        assert len(held) == len(jobs) <= most
        assert all(held.count(user) <= per_uid for user in held if user)
        assert len({one.key for one in jobs.jobs}) == len(held)
