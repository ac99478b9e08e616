"""What is told of jobs, and when it is withdrawn."""

from __future__ import annotations

import pytest

from hostcc.daemon.gossip.profile_records import KEEP_S, by_address, content, ended
from hostcc.model import JobProfile

pytestmark = pytest.mark.unit

MEASURED = JobProfile(
    job="train",
    compute_s=0.2,
    comm_start_s=0.1,
    work=1e12,
    gpus=1.0,
    period_s=0.3,
    bytes_to=(("10.0.0.2", 1e6), ("10.0.0.3", 1e6), ("10.0.9.9", 5e5)),
)


def test_destinations_are_members_where_they_are_known() -> None:
    told = content(MEASURED, None, {"10.0.0.2": "b", "10.0.0.3": "b"})
    to = dict(told.to)
    assert set(to) == {"10.0.9.9", "b"}
    assert to["b"] == pytest.approx(2e6, rel=0.05)


def test_noise_changes_nothing() -> None:
    first = content(MEASURED, None, {})
    noisy = JobProfile(
        job="train",
        compute_s=0.204,
        comm_start_s=0.101,
        work=1.02e12,
        gpus=1.0,
        period_s=0.303,
        bytes_to=(("10.0.0.2", 1.01e6), ("10.0.0.3", 0.99e6), ("10.0.9.9", 5.02e5)),
    )
    assert content(noisy, first, {}) == first


def test_jobs_end_when_they_are_gone_or_unmeasured_for_long() -> None:
    seen = {"gone": 100.0, "lost": 100.0, "here": 100.0 + KEEP_S}
    assert ended(seen, {"lost", "here"}, 100.0 + KEEP_S) == ["gone"]
    assert ended(seen, {"lost", "here"}, 100.1 + KEEP_S) == ["gone", "lost"]


def test_an_address_of_several_is_nobodys() -> None:
    pairs = [("a", "10.0.0.1:7471"), ("b", "[fd00::1]:7471"), ("c", ""), ("d", "")]
    assert by_address(pairs) == {"10.0.0.1": "a", "fd00::1": "b"}
    several = [("a", "10.0.0.1:1"), ("b", "10.0.0.1:2"), ("c", "10.0.0.1:3")]
    assert by_address(several) == {}
    same = [("a", "10.0.0.1:1"), ("a", "[10.0.0.1]:0"), ("a", "10.0.0.2:0")]
    assert by_address(same) == {"10.0.0.1": "a", "10.0.0.2": "a"}
