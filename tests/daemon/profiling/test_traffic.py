"""How much work looking at jobs may be, on a meter in memory."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostcc.daemon.profiling import traffic as t
from hostcc.daemon.profiling.analysis_budget import (
    ALLOWANCE_S,
    MAX_SAVED_S,
    Account,
)
from hostcc.daemon.profiling.analysis_run import analyse_all
from hostcc.daemon.profiling.job_memory import JobMemory
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.metering import Metering
from hostcc.daemon.profiling.profiles import JobFacts
from hostcc.daemon.profiling.rdma_meter import BypassTraffic
from hostcc.daemon.profiling.tracks import MAX_WAIT_S, MIN_BATCH_S, Track
from hostcc.daemon.profiling.turns import local
from hostcc.measure.destinations import DESTINATION
from hostcc.measure.expectation import ExpectationTracker
from hostcc.measure.meter import MissingData, Window
from hostcc.measure.series import Bins
from hostcc.model import JobProfile
from hostcc.system.cgroups import CgroupTree
from tests.daemon.declared import check_declared
from tests.daemon.profiling.hosts import ToyHost
from tests.daemon.profiling.test_metering import FakeMeter
from tests.daemon.profiling.test_remembered import MEASURED
from tests.measure.addresses import packed

pytestmark = [pytest.mark.unit, pytest.mark.slow]

MS = 1_000_000
BINS = int(t.READ_S * 1000)
JOBS = 3


class Steady(FakeMeter):
    """Every job sends in every tenth millisecond."""

    senders = JOBS
    other_from_ns = 1 << 62
    """From then on all send to another address."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[int] = []
        """Slots, one for each group that was attached."""

    def attach_cgroup(self, slot: int, cgroup: Path) -> None:
        super().attach_cgroup(slot, cgroup)
        self.told.append(slot)

    @property
    def now_ns(self) -> int:
        return self.at * BINS * MS

    def read(self) -> Window:
        who = np.zeros(self.senders, DESTINATION)
        who["slot"] = np.arange(1, self.senders + 1)
        who["addr"][:] = packed("10.0.0.1" if self.now_ns < self.other_from_ns else "10.0.0.2")
        row, place = np.divmod(np.arange(self.senders * BINS // 10), BINS // 10)
        words = np.full((len(row), 2), 500, np.uint64)
        start_ns, self.at = self.now_ns, self.at + 1
        return Window(MS, start_ns, BINS, who, row, place * 10, words, self.lost)


class Watched:
    """A part whose looks take as long as a test says; (second, job, thorough) of each."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, cost_s: float) -> None:
        self.meter = Steady()
        self.meter.lost = MissingData()
        self.looks: list[tuple[float, str, bool]] = []
        self.begun = 0
        self.host = host = ToyHost(folder)
        host.act()
        self.jobs = jobs = [
            LiveJob(f"job-{slot}", slot, (folder / "cg",), uid=0) for slot in range(1, JOBS + 1)
        ]
        self.memory = JobMemory(host, lambda: self.meter.now_ns)

        def looked(batch: Any) -> list[float]:
            at_s = self.meter.now_ns / 1e9
            self.looks += [(at_s, look.track.name, look.thorough) for look in batch]
            return [cost_s] * len(batch)

        monkeypatch.setattr(t, "analyse_all", looked)
        monkeypatch.setattr(t, "resolve_root", lambda _: folder / "cg")
        self.part = t.Traffic(
            host,
            lambda: jobs,
            lambda _: JobFacts(),
            make_meter=lambda _: self.meter,
            clock_ns=lambda: self.meter.now_ns,
            memory=self.memory,
            begun=self.note_begun,
        )

    def note_begun(self) -> None:
        self.begun += 1

    async def run(self, seconds: float) -> None:
        await self.part.start()
        for _ in range(round(seconds / t.READ_S)):
            await self.turn()
        self.part.stop()

    @property
    def seen(self) -> list[str]:
        """Jobs that have sent, as far as was taken in."""
        return [name for name, known in self.part.all_known().items() if sum(known.track.total)]

    async def turn(self) -> None:
        await self.part.tick()
        for task in list(asyncio.all_tasks() - {asyncio.current_task()}):
            await task


@pytest.mark.asyncio
async def test_thorough_looks_have_a_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cost_s, seconds = 0.05, 600
    watched = Watched(tmp_path, monkeypatch, cost_s)
    await watched.run(seconds)
    thorough = [at_s for at_s, _, thorough in watched.looks if thorough]
    spent_s = cost_s * len(thorough)
    owed_s = MAX_SAVED_S + JOBS * (ALLOWANCE_S + cost_s) + Account.LEARNING.value * seconds
    assert owed_s / 2 < spent_s <= owed_s + JOBS * cost_s
    assert thorough[-1] > seconds - 2 * JOBS * cost_s / Account.LEARNING.value
    # What is beyond that is only followed, but none waits for longer than its history lasts.
    for name in (f"job-{slot}" for slot in range(1, JOBS + 1)):
        times_s = [at_s for at_s, job, _ in watched.looks if job == name]
        assert np.diff(times_s).max() <= MAX_WAIT_S + 2 * t.READ_S


@pytest.mark.asyncio
async def test_cheap_looks_are_all_thorough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 1e-4)
    await watched.run(60)
    assert all(thorough for _, _, thorough in watched.looks)
    assert len(watched.looks) >= 3 * 50
    check_declared(watched.part)


@pytest.mark.parametrize(("cost_s", "waits_s"), [(1e-4, MIN_BATCH_S), (1.0, MAX_WAIT_S)])
@pytest.mark.asyncio
async def test_readings_wait_for_a_look_while_every_pattern_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost_s: float, waits_s: float
) -> None:
    taken: list[int] = []
    take = Track.take

    def counted(track: Track, new: Bins, *rest: Any) -> None:
        taken.append(len(new))
        take(track, new, *rest)

    monkeypatch.setattr(Track, "take", counted)
    watched = Watched(tmp_path, monkeypatch, cost_s)
    await watched.run(4 * t.READ_S)
    # Whoever has just begun is taken at once.
    assert taken == [BINS] * JOBS + [t.MIN_READS_PER_BATCH * BINS] * JOBS
    taken.clear()
    monkeypatch.setattr(Track, "known", True)
    monkeypatch.setattr(Track, "confident", True)
    await watched.run(300)
    # Until each job has had its turn nothing waits.
    assert taken[: 4 * JOBS] == [BINS] * JOBS + [t.MIN_READS_PER_BATCH * BINS] * 3 * JOBS
    assert set(taken[-20 * JOBS :]) == {round(waits_s * 1000)}
    # What is lost is not made up for.
    watched.meter.lost = MissingData(bins=3)
    taken.clear()
    await watched.run(120)
    assert set(taken) == {BINS}


@pytest.mark.asyncio
async def test_who_does_not_go_on_is_read_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: dict[str, list[Bins]] = {}
    take = Track.take

    def counted(track: Track, new: Bins, *rest: Any) -> None:
        taken.setdefault(track.name, []).append(new)
        take(track, new, *rest)

    synced_after: list[float] = []
    sync = Metering.sync

    def synced(metering: Metering, *rest: Any) -> None:
        synced_after.append(metering.gathered_s)
        sync(metering, *rest)

    monkeypatch.setattr(Track, "take", counted)
    monkeypatch.setattr(Metering, "sync", synced)
    for what in ("known", "confident", "settled"):
        monkeypatch.setattr(Track, what, True)
    monkeypatch.setattr(ExpectationTracker, "is_regular", lambda _, name: name != "job-2")
    monkeypatch.setattr(t, "MAX_HANDED_FRACTION", 1 / JOBS)
    await Watched(tmp_path, monkeypatch, 1e-4).run(300)
    late = {name: parts[-5:] for name, parts in taken.items()}
    assert {len(one) for one in late["job-2"]} == {round(1000 * MIN_BATCH_S)}
    assert {len(one) for name in ("job-1", "job-3") for one in late[name]} == {10_000}
    for parts in taken.values():
        assert all(one.end_ns == later.start_ns for one, later in pairwise(parts))
    # What the meter is told is true of nothing that it was read before.
    assert len(synced_after) > 300 / (t.SYNC_S + 2 * MAX_WAIT_S)
    assert set(synced_after) == {0}


@pytest.mark.asyncio
async def test_nothing_waits_for_a_job_that_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.1)
    monkeypatch.setattr(Track, "known", True)
    monkeypatch.setattr(Track, "confident", True)
    watched.meter.senders = 1
    part, ticks = watched.part, round(60 / t.READ_S)
    await part.start()
    for _ in range(ticks):
        await watched.turn()
    assert watched.seen == ["job-1"]
    watched.meter.senders = JOBS
    await watched.turn()
    assert watched.seen == [f"job-{slot}" for slot in range(1, JOBS + 1)]
    part.stop()


@pytest.mark.asyncio
async def test_a_job_that_ran_before_is_news_once_it_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.1)
    part, job = watched.part, watched.jobs[0]
    # It has begun once it has sent 50 kB, after two readings.
    before = replace(MEASURED, job=job.name, bytes_to=(("10.0.0.1", 1e6),))
    watched.memory.complete(job, Track(job.name), before)
    watched.memory.keep(())
    await part.start()
    counts = []
    for _ in range(3):
        await watched.turn()
        counts.append(watched.begun)
    assert counts == [0, 1, 2]
    assert [one.recalled for one in part.profiles()] == [True]
    for _ in range(20):
        await watched.turn()
    assert watched.begun == 2
    part.stop()


@pytest.mark.asyncio
async def test_few_readings_wait_of_jobs_that_never_fall_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(t, "MAX_PENDING_CELLS", JOBS * BINS // 10 + 1)
    watched = Watched(tmp_path, monkeypatch, 0.1)
    monkeypatch.setattr(Track, "known", True)
    monkeypatch.setattr(Track, "confident", True)
    reads: list[float] = []
    take = t.Traffic.__dict__["_take"]

    def noted(part: t.Traffic, reading: Any) -> None:
        reads.append(len(reading.silence))
        take(part, reading)

    monkeypatch.setattr(t.Traffic, "_take", noted)
    await watched.run(120)
    assert max(reads) == 2 * BINS


@pytest.mark.parametrize("method", ["take", "collect", "analyse", "pattern"])
@pytest.mark.asyncio
async def test_what_goes_wrong_with_one_job_costs_the_others_nothing(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it is: the first job of every batch fails for ten seconds."""
    monkeypatch.setattr(
        t, "MAX_HANDED_FRACTION", 1.0
    )  # so that bins are also handed over to some only
    watched, broken = Watched(tmp_path, monkeypatch, 0.0), True
    monkeypatch.undo()
    monkeypatch.setattr(t, "resolve_root", lambda _: tmp_path / "cg")
    works = getattr(Track, method)

    def fails(track: Track, *rest: Any, **named: Any) -> Any:
        if track.name == "job-1" and broken:
            raise ValueError("bins that do not fit")
        return works(track, *rest, **named)

    monkeypatch.setattr(Track, method, fails)
    part = watched.part
    await part.start()
    reasons = set()
    for _ in range(round(10 / t.READ_S)):
        await watched.turn()
        reasons |= {part.all_known()[name].measured.reason for name in part.all_known()}
        part.profiles()
    failing = [record for record in caplog.records if "could not be looked at" in record.message]
    assert [record.__dict__["fields"]["job"] for record in failing] == ["job-1"]
    for name in ("job-2", "job-3"):
        track = part.all_known()[name].track
        assert track.watch is not None
        bins = track.watch.levels[0].whole()
        assert bins.start_ns == 0
        assert bins.end_ns >= watched.meter.now_ns - MAX_WAIT_S * 1e9 / 2
        assert int(bins.tx.sum()) == 500 * (len(bins) // 10)
    broken = False
    for _ in range(round(10 / t.READ_S)):
        await watched.turn()
    words = "its traffic could not be looked at: ValueError('bins that do not fit')"
    assert method in {"take", "pattern"} or words in reasons
    known = part.all_known()
    assert known["job-1"].measured.reason == known["job-2"].measured.reason
    assert known["job-1"].track.failures > 0 < sum(known["job-1"].track.total)
    part.stop()


@pytest.mark.asyncio
async def test_a_history_that_is_asked_for_ends_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.0)
    monkeypatch.setattr(t, "analyse_all", analyse_all)
    part = watched.part
    part.catch_up("job-1")  # nothing is metered yet
    await part.start()
    for _ in range(60):
        await watched.turn()
    others = part.sent()
    part.catch_up("job-1")
    part.catch_up("nobody")
    known = part.known("job-1")
    assert known is not None
    found = known.track.history()
    assert found.end_ns == watched.meter.now_ns
    assert found.tx.sum() == len(found) // 10 * 500
    # Nobody else's bins are taken for it, and none comes twice later.
    assert {name: one for name, one in part.sent().items() if name != "job-1"} == {
        name: one for name, one in others.items() if name != "job-1"
    }
    for _ in range(60):
        await watched.turn()
    part.catch_up("job-1")
    total = known.track.total[0]
    assert total == watched.meter.at * BINS // 10 * 500
    part.stop()


@pytest.mark.asyncio
async def test_who_asks_all_the_time_puts_off_no_analysis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.0)
    await watched.part.start()
    for _ in range(200):
        await watched.turn()
        watched.part.catch_up("job-1")
    watched.part.stop()
    for name in (f"job-{slot}" for slot in range(1, JOBS + 1)):
        times_s = [at_s for at_s, job, _ in watched.looks if job == name]
        assert np.diff(times_s).max() <= MAX_WAIT_S + 4 * t.READ_S


@pytest.mark.asyncio
async def test_a_group_that_is_another_one_is_attached_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.0)
    number = 0
    monkeypatch.setattr(CgroupTree, "identity", lambda _, path: number)
    await watched.part.start()
    for number in (1, 2):
        for _ in range(round((t.SYNC_S + MAX_WAIT_S) / t.READ_S)):
            await watched.turn()
        assert watched.meter.told == [JOBS] * number  # they share one, which is the last one's
    watched.part.stop()


@pytest.mark.asyncio
async def test_a_job_that_ran_before_is_told_from_its_first_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.0)
    part, memory = watched.part, watched.memory
    before = JobProfile(
        "job-2", 0.5, 0.5, 0.0, 0.0, period_s=1.0, bytes_to=(("10.0.0.1", 50_000.0),),
    )  # fmt: skip
    memory.complete(LiveJob("job-2", uid=0), Track("job-2"), before)
    memory.keep(())
    await part.start()
    await watched.turn()
    (told,) = part.profiles()
    assert (told.job, told.period_s, told.bytes_to) == ("job-2", 1.0, before.bytes_to)
    assert told.recalled
    assert part.latest("job-2") is told
    assert part.latest("job-1") is None
    assert memory.recalled("job-2") is not None
    # Where it sends now is known as early.
    assert [str(to) for to in part.all_known()["job-1"].track.to] == ["10.0.0.1"]
    part.stop()
    assert memory.recalled("job-2") is None


@pytest.mark.asyncio
async def test_the_kernel_has_a_hint_of_a_job_while_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.0)
    monkeypatch.undo()
    monkeypatch.setattr(t, "resolve_root", lambda _: tmp_path / "cg")
    part, engine = watched.part, watched.host.engine
    (group := tmp_path / "cg" / "x").mkdir()
    engine.table.follow("job-2", [group], "a test")
    hints, slot = engine.backend.hints, engine.table.jobs["job-2"].slot
    await part.start()
    for _ in range(round(20 / t.READ_S)):
        await watched.turn()
    assert hints.keys() == {slot}
    assert hints[slot].period_s == pytest.approx(0.01, rel=0.01)
    assert hints[slot].bytes == pytest.approx(500)
    iteration = part.iteration("job-2")
    assert iteration is not None
    assert iteration.bytes == pytest.approx(500)
    # What is known is now of what bypasses sockets: the congestion control does not see it.
    bypassing = copy.copy(part._tracks["job-2"])
    bypassing.total = (10**15, 10**15)
    part._other = lambda name: BypassTraffic(bypassing, [], {}) if name == "job-2" else None
    iteration = part.iteration("job-2")
    assert iteration is not None
    assert iteration.bytes is None
    part.stop()
    assert hints == {}


@pytest.mark.asyncio
async def test_jobs_that_bypass_sockets_take_turns_and_the_last_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.0)
    monkeypatch.setattr(local, "tie_break_hash", lambda name: name.encode())
    bypassing = Track("rdma")
    bypassing.total = (10**15, 10**15)
    monkeypatch.setattr(bypassing, "sending", lambda _: watched.meter.now_ns < 40 * 10**9)
    names = ["rdma", "job-1"]
    jobs = [LiveJob(name, at, (tmp_path / "cg",)) for at, name in enumerate(names, 1)]
    watched.part._jobs = lambda: jobs
    watched.part._other = lambda name: BypassTraffic(bypassing, [], {}) if name == "rdma" else None
    await watched.part.start()
    had = set[str]()
    last = None
    for _ in range(400):
        await watched.turn()
        had.add(watched.part.turns.job)
        if (ended := watched.part.last_turn) is not None and ended.job == "rdma":
            last = ended
    watched.part.stop()
    assert {"rdma", "job-1"} <= had
    assert last is not None
    assert 0 < last.length_s <= 31.0
