"""A job's profile as others are told of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from hostcc.daemon.profiling import profiles
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.profile_cache import ProfileCache
from hostcc.daemon.profiling.profiles import JobFacts, known, summary, to_share
from hostcc.daemon.profiling.routes import Route, used
from hostcc.daemon.profiling.tracks import Track
from hostcc.daemon.profiling.traffic import Traffic
from hostcc.daemon.profiling.turns.local import ENOUGH
from hostcc.measure.destinations import DESTINATION, address
from hostcc.measure.gpu.readings import Source
from hostcc.measure.meter import RX, TX
from hostcc.measure.series import ByteSeries, part, series
from hostcc.measure.work import Interval
from hostcc.schedule.assumed_work import ASSUMED_HOST_FLOP_PER_S
from tests.daemon.profiling.hosts import ToyHost
from tests.measure.addresses import packed
from tests.measure.jobs import regular
from tests.measure.test_silences import SENT, SILENCE
from tests.measure.test_silences import job as shapeless

pytestmark = pytest.mark.unit

NEAR, FAR = (address(packed(f"198.18.0.{n}")) for n in (2, 3))
WAYS = {NEAR: Route("eth0", 10**9, nominal=False), FAR: Route("eth1", 10**9, nominal=True)}


@pytest.fixture
def track() -> Track:
    """100 ms; 20,000 bytes each way, three quarters of what is sent goes NEAR."""
    made, who = Track("a"), np.zeros(2, DESTINATION)
    who["addr"][0], who["addr"][1] = packed(str(NEAR)), packed(str(FAR))
    for at in range(0, 4000, 1000):
        made.take(part(regular(100, 40), at, at + 1000), who, np.array([[3, 1], [1, 1]]))
        made.analyse(made.collect())
    return made


def test_what_others_are_told(track: Track) -> None:
    intervals = [
        Interval(0.1 * n, 0.1 * n + 0.1, 5e11, 0.5, Source.COUNTERS, ("GPU-1", "GPU-2"))
        for n in range(40)
    ]
    got = to_share(
        known(LiveJob("a", weight=3.0), track, JobFacts(intervals, ways=WAYS)), "h", 1000
    )
    assert got is not None
    assert (got.job, got.host, got.gpus, got.weight, got.slowdown) == ("a", "h", 2.0, 3.0, 1.0)
    assert got.period_s == pytest.approx(0.1, rel=0.01)
    assert got.work == pytest.approx(5e11, rel=0.01)
    assert dict(got.bytes_to) == pytest.approx({str(NEAR): 15_000, str(FAR): 5_000}, rel=0.01)
    assert got.comm_s == pytest.approx(8 * 15_000 / 1e9, rel=0.01)
    assert got.comm_start_s <= got.compute_s <= got.period_s
    assert got.phase_s is not None
    assert 0 <= got.phase_s < got.period_s
    assert 1002 <= got.at <= 1004.2  # of the last look that found something new


def test_before_its_iterations_are_known_a_guess_is_told() -> None:
    """Three iterations and a half: too few for a period."""
    young, who = Track("a"), np.zeros(1, DESTINATION)
    who["addr"][0] = packed(str(NEAR))
    young.take(part(regular(200, 4), 0, 780), who, np.array([[1, 1]]))
    young.analyse(young.collect())
    of = known(LiveJob("a", weight=3.0, flops=2e12), young, JobFacts())
    got = to_share(of, "h", 1000)
    assert got is not None
    assert of.measured.period_s is None
    assert (got.job, got.host, got.weight, got.work) == ("a", "h", 3.0, 2e12)
    assert (got.confidence, got.slowdown) == (0.0, 1.0)
    assert got.period_s == pytest.approx(0.2)
    assert got.compute_s == got.comm_start_s == pytest.approx(0.12)
    assert dict(got.bytes_to) == pytest.approx({str(NEAR): 40_000})
    assert got.at == pytest.approx(1000.78)


def learned(of: ByteSeries) -> Track:
    """What is known of a job that sends this NEAR, a second at a time."""
    made, who = Track("a"), np.zeros(1, DESTINATION)
    who["addr"][0] = packed(str(NEAR))
    for at in range(0, len(of), 1000):
        made.take(part(of, at, at + 1000), who, np.array([[1, 1]]))
        made.analyse(made.collect())
    return made


def test_what_is_told_of_a_job_that_collides_does_not_jump() -> None:
    """Its bursts differ in length and a little in bytes: of its periods few are sure."""
    chance = np.random.default_rng(1)
    bursts: list[npt.NDArray[np.int64]] = []
    while sum(len(one) for one in bursts) < 16_000:
        length = int(chance.integers(120, 260))
        size = int(chance.integers(1_000_000, 1_400_000))
        bursts += [np.zeros(120, np.int64), np.full(length, size // length, np.int64)]
    whole = np.concatenate(bursts)
    for seconds in (2, 4, 8, 16):
        upto = whole[: 1000 * seconds]
        of = known(LiveJob("a"), learned(series(upto, upto, 1_000_000)), JobFacts())
        got = to_share(of, "h", 0.0)
        assert got is not None
        assert (got.confidence == 0.0) == (of.measured.confidence < ENOUGH)
        assert got.compute_s == pytest.approx(0.12, abs=0.001)
        assert got.period_s == pytest.approx(0.31, rel=0.1)
        assert dict(got.bytes_to) == pytest.approx({str(NEAR): 1.2e6}, rel=0.1)


def test_what_is_sent_again_while_a_job_computes_ends_no_silence() -> None:
    """Most iterations are equally long, so that they count as even; the others smear the fold."""
    chance = np.random.default_rng(2)
    parts: list[npt.NDArray[np.int64]] = []
    while sum(len(one) for one in parts) < 10_000:
        silent = np.zeros(132, np.int64)
        silent[int(chance.integers(20, 110))] = 1500
        length = 150 if chance.random() < 0.6 else int(chance.integers(110, 230))
        parts += [silent, np.full(length, 2_000_000 // length, np.int64)]
    whole = np.concatenate(parts)
    of = known(LiveJob("a"), learned(series(whole, whole, 1_000_000)), JobFacts())
    assert of.measured.fold is not None
    assert of.measured.fold.communication_start_s < 0.12
    got = to_share(of, "h", 0.0)
    assert got is not None
    assert got.confidence >= ENOUGH
    assert got.compute_s == got.comm_start_s == pytest.approx(0.132, abs=0.003)


def test_of_an_irregular_job_the_mean_period_is_told() -> None:
    made = shapeless(3, 40)
    of = known(LiveJob("a"), learned(series(made, None, 1_000_000)), JobFacts())
    assert of.measured.irregular
    assert of.measured.confidence >= ENOUGH
    got = to_share(of, "h", 0.0)
    assert got is not None
    assert got.period_s == of.measured.mean_period_s
    assert got.period_s == pytest.approx(len(made) / 1000 / 40, rel=0.05)
    assert got.compute_s == got.comm_start_s == pytest.approx(SILENCE / 1000, rel=0.05)
    assert got.confidence == of.measured.confidence
    assert dict(got.bytes_to) == pytest.approx({str(NEAR): SENT}, rel=0.05)


def test_slower_than_alone(track: Track) -> None:
    track.alone = 0.08, None
    assert profiles.slowdown(known(LiveJob("a"), track, JobFacts())) == pytest.approx(
        1.25, rel=0.01
    )


@pytest.mark.parametrize(("burst", "slower"), [(1.0, 3.0), (3.0, 1.0)])
def test_a_time_alone_is_of_iterations_with_the_same_bytes(
    track: Track, tmp_path: Path, burst: float, slower: float
) -> None:
    """A job that is three times as long for want of room, and one that has become another one."""
    Traffic(ToyHost(tmp_path), list, lambda _: JobFacts())._note_alone(track)
    later = regular(300, 60, share=0.4 * burst / 3, start_ns=4_000_000_000)
    assert later.tx.sum() / 60 == pytest.approx(20_000 * burst, rel=0.1)
    for at in range(0, len(later), 1000):
        track.take(part(later, at, at + 1000))
        track.analyse(track.collect())
    found = known(LiveJob("a"), track, JobFacts())
    assert found.measured.period_s == pytest.approx(0.3, rel=0.01)
    assert profiles.slowdown(found) == pytest.approx(slower, rel=0.02)


def test_unknown_is_said_with_the_reason(track: Track) -> None:
    got = summary(known(LiveJob("a"), track, JobFacts(why="no NVIDIA driver")))
    assert (got.flop, got.flop_reason) == (None, "no NVIDIA driver")
    assert (got.links, got.link_time_s, got.intensity) == ([], None, None)
    assert got.assumed_flop_per_s == ASSUMED_HOST_FLOP_PER_S
    nobody = known(LiveJob("b"), Track("b"), JobFacts())
    assert to_share(nobody, "h", 0.0) is None
    assert summary(nobody).reason == "no traffic yet"


def test_others_are_told_what_is_assumed_where_work_is_unknown(track: Track) -> None:
    unknown = Interval(0.0, 4.0, None, None, Source.UNKNOWN, ("GPU-1",), peak_flop_per_s=1e15)
    of = known(LiveJob("a"), track, JobFacts([unknown]))
    got = to_share(of, "h", 0.0)
    assert got is not None
    assert got.work == 0.0
    assert got.assumed_flop_per_s == pytest.approx(4e14)
    assert summary(of).assumed_flop_per_s == got.assumed_flop_per_s
    declared = known(LiveJob("a", flops=2e12), track, JobFacts([unknown], assumed_flops=1e14))
    sure = to_share(declared, "h", 0.0)
    assert sure is not None
    assert (sure.work, sure.assumed_flop_per_s) == (2e12, 0.0)
    assert summary(declared).assumed_flop_per_s is None


def test_a_virtual_links_speed_is_nominal(track: Track) -> None:
    links = summary(known(LiveJob("a"), track, JobFacts(ways=WAYS))).links
    assert [(link.name, link.nominal) for link in links] == [("eth0", False), ("eth1", True)]


def test_links_have_their_part_of_the_series() -> None:
    of = regular(100, 5)
    shares = {NEAR: (0.75, 0.5), FAR: (0.25, 0.5)}
    near, far = used(of, shares, WAYS)
    assert near.traffic is not None
    assert far.traffic is not None
    assert near.traffic.tx.sum() == pytest.approx(0.75 * of.tx.sum())
    assert far.traffic.rx.sum() == pytest.approx(0.5 * of.rx.sum())
    (only,) = used(of, {NEAR: (1.0, 1.0)}, WAYS)
    assert only.traffic is None
    assert (TX, RX) == (0, 1)
    assert Path(only.name).name == "eth0"


def test_what_is_known_is_put_together_again_when_something_of_it_is_new(track: Track) -> None:
    latest, job, beside = ProfileCache(), LiveJob("a"), JobFacts(boundaries_s=[1.0, 1.1])
    first = latest.known(job, track, beside)
    assert latest.known(LiveJob("a"), track, JobFacts(boundaries_s=[1.0, 1.1])) is first
    track.alone = 0.05, None
    assert profiles.slowdown(first) == pytest.approx(2, rel=0.01)
    heavier = latest.known(job._replace(weight=2.0), track, beside)
    assert heavier.job.weight == 2.0
    assert latest.known(job, track, JobFacts(why="no driver")).facts.why == "no driver"
    before = latest.known(job, track, beside)
    track.take(part(regular(100, 50), 4000, 5000))
    assert latest.known(job, track, beside) is before
    track.analyse(track.collect())
    assert latest.known(job, track, beside) is not before
    another = latest.known(job, Track("a"), beside)
    assert another.measured.period_s is None
    latest.keep({"b"})
    assert latest.known(job, Track("a"), beside) is not another


def test_looks_that_find_the_same_figures_put_nothing_together_again() -> None:
    steady, latest, job = learned(regular(100, 40)), ProfileCache(), LiveJob("a")
    first, watch = latest.known(job, steady, JobFacts()), steady.watch
    assert watch is not None
    who = np.zeros(1, DESTINATION)
    who["addr"][0] = packed(str(NEAR))
    for at in range(4000, 4600, 200):
        steady.take(part(regular(100, 60), at, at + 200), who, np.array([[1, 1]]))
        steady.analyse(steady.collect())
        assert steady.watch is not watch
        assert latest.known(job, steady, JobFacts()) is first
    # Where the traffic goes is part of it.
    who = who.copy()
    who["addr"][0] = packed(str(FAR))
    steady.take(part(regular(100, 60), 4600, 4700), who, np.array([[1, 1]]))
    steady.analyse(steady.collect())
    to_both = latest.known(job, steady, JobFacts())
    assert to_both is not first
    # As are figures that were measured again.
    steady.take(part(regular(100, 600), 4700, 45_000), who, np.array([[1, 1]]))
    steady.analyse(steady.collect())
    again = latest.known(job, steady, JobFacts())
    assert again is not to_both
    assert again.measured.measured_ns > to_both.measured.measured_ns
