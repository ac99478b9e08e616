"""The DCQCN rate model: full links, equal shares, and who gains from unfairness."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import replace

import pytest

from hostcc.sim import dcqcn_model
from hostcc.sim.dcqcn_model import Link, Scale, Sender, TrainingJob

pytestmark = [pytest.mark.unit, pytest.mark.slow]
LINK = Link()


def job(name: str, share: float, sender: Sender, period_s: float = 0.05) -> TrainingJob:
    """A job that, alone, communicates for `share` of its time."""
    return TrainingJob(name, period_s * (1 - share), LINK.rate * period_s * share, sender)


def medians(jobs: list[TrainingJob], iterations: int = 60) -> list[float]:
    found = dcqcn_model.run(jobs, LINK, iterations, seed=1)
    assert all(len(durations) == iterations for durations in found.values())
    return [statistics.median(durations) for durations in found.values()]


def test_marking() -> None:
    link = Link(kmin=10, kmax=110, pmax=0.5)
    marks = [dcqcn_model.marking(link, queue) for queue in (0, 10, 60, 110, 111)]
    assert marks == [0, 0, 0.25, 0.5, 1]


def test_one_job_alone_takes_its_time() -> None:
    (alone,) = medians([job("a", 0.4, Sender())], 5)
    assert alone == pytest.approx(0.05, rel=0.02)


def test_a_job_sends_no_faster_than_its_rate() -> None:
    """At half of the link's rate an exchange takes twice as long, and two do not contend."""
    half = replace(job("a", 0.4, Sender()), rate=LINK.rate / 2)
    alone = medians([half], 5)[0]
    assert alone == pytest.approx(0.05 * (0.6 + 2 * 0.4), rel=0.02)
    assert medians([half, replace(half, name="b")], 5) == pytest.approx([alone] * 2, rel=0.02)


def test_equal_senders_share_equally_and_fill_the_link() -> None:
    both = [job(name, 1.0, Sender(), 0.3) for name in "ab"]
    found = dcqcn_model.run(both, LINK, 1, seed=1)
    first, second = found["a"][0], found["b"][0]
    assert first == pytest.approx(second, rel=0.1)
    assert 0.6 <= max(first, second) <= 0.66


def test_a_smaller_t_gets_more() -> None:
    """100 against the default 125 us: between 1.05 and 1.6 times the bytes while both send."""
    slow, fast = job("slow", 1.0, Sender(), 0.3), job("fast", 1.0, Sender(t_s=100e-6), 0.3)
    found = dcqcn_model.run([slow, fast], LINK, 1, seed=1)
    # When `fast` is done the rest of `slow` has the link to itself.
    alone = found["slow"][0] - found["fast"][0]
    others = slow.bytes - LINK.rate * alone
    assert 1.05 <= fast.bytes / others <= 1.6


def means(first_t_s: float, f: Scale | None) -> float:
    """Mean iteration over the time alone, of two jobs of 45 % communication."""
    senders = [Sender(t_s=first_t_s, mltcp=f), Sender(mltcp=f)]
    jobs = [
        replace(job(name, 0.45, sender, 0.15), flows=8)
        for name, sender in zip("ab", senders, strict=True)
    ]
    found = dcqcn_model.run(jobs, LINK, 14, seed=1)
    return statistics.mean(itertools.chain(*found.values())) / 0.15


def test_compatible_jobs_gain_from_unfairness_and_from_mltcp() -> None:
    fair = means(125e-6, None)
    assert fair > 1.15
    assert means(100e-6, None) < fair - 0.05
    assert means(125e-6, lambda ratio: 1.75 * ratio + 0.25) < fair - 0.05


def test_incompatible_jobs_gain_nothing_much() -> None:
    """70 % communication each: 1.4 times alone is the best there is."""
    unfair = medians([job("a", 0.7, Sender(t_s=100e-6)), job("b", 0.7, Sender())], 30)
    assert min(unfair) >= 1.3 * 0.05


def triple(share: float, periods: tuple[float, ...], timers_us: tuple[float, ...]) -> float:
    """Mean iteration over the time alone, of three jobs."""
    jobs = [
        replace(job(name, share, Sender(t_s=timer * 1e-6), period), flows=4)
        for name, timer, period in zip("abc", timers_us, periods, strict=True)
    ]
    found = dcqcn_model.run(jobs, LINK, 14, seed=1)
    pairs = zip(periods, found.values(), strict=True)
    return statistics.mean(duration / period for period, own in pairs for duration in own)


def test_triples() -> None:
    """Three that fit on one link gain from three different timers; three that do not do not."""
    fair, unfair = (125, 125, 125), (80, 100, 125)
    alike = (0.1, 0.1, 0.1)
    assert triple(0.28, alike, fair) / triple(0.28, alike, unfair) > 1.05
    different = (0.1, 0.084, 0.068)
    assert 0.95 < triple(0.45, different, fair) / triple(0.45, different, unfair) < 1.05


def test_who_watches_sees_all_bytes_and_changes_nothing() -> None:
    jobs = [job("a", 0.4, Sender()), job("b", 0.3, Sender())]
    seen: list[tuple[float, str, float]] = []
    found = dcqcn_model.run(jobs, LINK, 3, 7, watch=lambda *one: seen.append(one))
    assert found == dcqcn_model.run(jobs, LINK, 3, 7)
    for one in jobs:
        first = sum(size for now, name, size in seen if name == one.name and now <= found[name][0])
        assert first == pytest.approx(one.bytes)
    assert [now for now, _, _ in seen] == sorted(now for now, _, _ in seen)


def test_deterministic() -> None:
    jobs = [job("a", 0.4, Sender(mltcp=lambda r: 1.75 * r + 0.25)), job("b", 0.4, Sender())]
    assert dcqcn_model.run(jobs, LINK, 3, 7) == dcqcn_model.run(jobs, LINK, 3, 7)
