"""The meter kept in line with the jobs, on a meter in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.metering import SLOT_LINGER_SYNCS, JobReading, Metering
from hostcc.limits import MAX_JOBS
from hostcc.measure.cells import chained
from hostcc.measure.destinations import DESTINATION
from hostcc.measure.meter import MissingData, Window
from tests.measure.addresses import packed

pytestmark = pytest.mark.unit

ROOT = Path("/cg")
BINS = 4
NOBODYS = np.zeros(0, DESTINATION)


class FakeMeter:
    """Remembers what is attached; hands over the rows that a test puts into it."""

    def __init__(self) -> None:
        self.attached: dict[Path, int] = {}
        self.root: Path | None = None
        self.rules: dict[tuple[int, bool], int] = {}
        self.rows: list[tuple[int, str, bool, int]] = []
        """(slot, address, local, bytes sent in each bin)."""
        self.at = 0
        self.lost = MissingData(1, packets=2)
        """What each reading says is lost after it."""

    def attach_cgroup(self, slot: int, cgroup: Path) -> None:
        self.attached[cgroup] = slot

    def detach_cgroup(self, slot: int, cgroup: Path | None = None) -> None:
        self.attached = {
            path: of
            for path, of in self.attached.items()
            if of != slot or cgroup not in (None, path)
        }

    def attach_root(self, cgroup: Path) -> None:
        self.root = cgroup

    def set_port_rules(self, rules: Mapping[tuple[int, bool], int]) -> None:
        self.rules = dict(rules)

    def refresh(self) -> None:
        pass

    def read(self) -> Window:
        who = np.zeros(len(self.rows), DESTINATION)
        for number, (slot, to, local, _) in enumerate(self.rows):
            who[number] = (slot, local, False, packed(to))
        words = np.zeros((len(self.rows) * BINS, 2), np.uint64)
        words[:, 0] = np.repeat([size for *_, size in self.rows], BINS)
        row, place = np.divmod(np.arange(len(words)), BINS)
        self.at += 1
        start_ns = (self.at - 1) * 1000 * BINS
        return Window(1000, start_ns, BINS, who, row, place, words, self.lost)

    def program_stats(self) -> list[dict[str, Any]]:
        return []

    def check(self) -> list[str]:
        return []

    def close(self) -> None:
        self.attached.clear()


class World:
    def __init__(self) -> None:
        self.meter = FakeMeter()
        self.ids: dict[Path, int] = {}
        self.metering = Metering(self.meter, lambda path: self.ids.get(path, 0))

    def group(self, name: str, number: int) -> Path:
        self.ids[ROOT / name] = number
        return ROOT / name

    def sync(self, *jobs: LiveJob, **rules: int) -> None:
        self.metering.sync(jobs, {(port, False): job for job, port in rules.items()}, ROOT)


@pytest.fixture
def world() -> World:
    return World()


def test_a_jobs_own_slot_and_others_from_the_top(world: World) -> None:
    one, two, three, four = (world.group(str(number), 10 + number) for number in range(1, 5))
    world.sync(LiveJob("a", 5, (one, two)), LiveJob("b", 0, (three,)), LiveJob("c", 0, (four,)))
    top = MAX_JOBS - 1
    assert world.meter.attached == {one: 5, two: 5, three: top, four: top - 1}
    to = "198.18.0.2"
    world.meter.rows = [(5, to, False, 8), (top, to, True, 9), (top - 1, to, False, 1)]
    counted = world.metering.read().jobs
    assert counted["a"].series.tx.tolist() == [8] * BINS
    assert counted["a"].sums.sum() == 8 * BINS
    assert counted["c"].series.tx.tolist() == [1] * BINS
    assert "b" not in counted  # loopback
    world.sync(LiveJob("a", 5, (one,)))
    assert world.meter.attached == {one: 5}


def test_all_of_a_managed_job_is_counted_in_its_own_slot(world: World) -> None:
    """What is received in another slot is no traffic of the job to the congestion control."""
    one, two = world.group("1", 11), world.group("2", 12)
    world.sync(LiveJob("a", 0, (one, two)))  # found, and not managed yet
    top = MAX_JOBS - 1
    assert world.meter.attached == {one: top, two: top - 1}
    world.meter.rows = [(top, "198.18.0.2", False, 3)]
    world.sync(LiveJob("a", 5, (one, two)))
    assert world.meter.attached == {one: 5, two: 5}
    assert world.metering.read().jobs["a"].total == (3 * BINS, 0)  # from before
    world.sync(LiveJob("a", 5, (two,)))
    assert world.meter.attached == {two: 5}


def test_whoever_is_in_the_slot_of_a_managed_job_gets_another(world: World) -> None:
    """Slots are given in rotation: after a thousand jobs they come to those from the top."""
    one, two, top = world.group("1", 11), world.group("2", 12), MAX_JOBS - 1
    found, managed = LiveJob("a", 0, (one,)), LiveJob("b", top, (two,))
    world.sync(found)
    assert world.meter.attached == {one: top}
    world.sync(found, managed)
    assert world.meter.attached == {one: top - 1, two: top}
    to = "198.18.0.2"
    world.meter.rows = [(top, to, False, 5), (top - 1, to, False, 2)]
    counted = world.metering.read().jobs
    assert {name: one.total[0] for name, one in counted.items()} == {"a": 2 * BINS, "b": 5 * BINS}


def test_a_cgroup_made_anew_is_attached_anew(world: World) -> None:
    group = world.group("1", 11)
    world.sync(LiveJob("a", 1, (group,)))
    world.meter.attached.clear()
    world.sync(LiveJob("a", 1, (group,)))
    assert world.meter.attached == {}
    world.group("1", 99)
    world.sync(LiveJob("a", 1, (group,)))
    assert world.meter.attached == {group: 1}


def test_a_slot_keeps_its_name_until_its_bytes_are_read(world: World) -> None:
    world.sync(LiveJob("a", 1, (world.group("1", 11),)))
    world.meter.rows = [(1, "198.18.0.2", False, 3)]
    world.sync()
    assert world.meter.attached == {}
    assert "a" in world.metering.read().jobs
    for _ in range(SLOT_LINGER_SYNCS + 1):
        world.sync()
    assert world.metering.read().jobs == {}


def test_rules_cost_every_packet_so_only_where_there_are_some(world: World) -> None:
    world.sync(LiveJob("a", 1, (world.group("1", 11),)))
    assert world.meter.root != ROOT
    world.sync(LiveJob("a", 1, (world.group("1", 11),)), LiveJob("r", 2), r=5000)
    assert (world.meter.root, world.meter.rules) == (ROOT, {(5000, False): 2})
    world.sync(LiveJob("observed", 0), observed=6000)
    (slot,) = world.meter.rules.values()
    world.meter.rows = [(slot, "198.18.0.2", False, 3)]
    assert world.metering.read().jobs["observed"].series.tx.sum() == 3 * BINS
    world.sync()
    assert world.meter.rules == {}


def test_losses_add_up(world: World) -> None:
    world.metering.read()
    silence = world.metering.read().silence
    assert (world.metering.lost.bins, world.metering.lost.packets) == (2, 4)
    assert (silence.start_ns, len(silence), silence.whole().total.sum()) == (1000 * BINS, BINS, 0)


def test_a_job_begins_until_its_bytes_were_read(world: World) -> None:
    job = LiveJob("a", 5, (world.group("1", 11),))
    world.sync(job)

    def begins(*rows: tuple[int, str, bool, int]) -> bool:
        world.meter.rows = list(rows)
        world.metering.gather()
        told = world.metering.begins
        world.metering.read()
        return told

    assert not begins()
    assert not begins((5, "198.18.0.2", True, 3))  # loopback
    assert not begins((7, "198.18.0.2", False, 3))  # nobody's
    assert begins((5, "198.18.0.2", False, 0))
    assert begins((5, "198.18.0.2", False, 3))
    assert not begins((5, "198.18.0.2", False, 3))
    world.sync(job, LiveJob("b", 6, (world.group("2", 12),)))
    assert not begins((5, "198.18.0.2", False, 3))
    assert begins((6, "198.18.0.2", False, 3))
    # Gone, and another one of that name.
    world.sync()
    world.metering.read()
    world.sync(job)
    assert begins((5, "198.18.0.2", False, 3))


def test_who_was_seen_on_loopback_is_known_while_it_lasts(world: World) -> None:
    """Its bytes are in no reading, so nothing else tells it from a job without traffic."""
    jobs = LiveJob("a", 5, (world.group("1", 11),)), LiveJob("b", 6, (world.group("2", 12),))
    world.sync(*jobs)
    world.meter.rows = [(5, "127.0.0.1", True, 700), (6, "10.0.0.1", False, 700)]
    assert set(world.metering.read().jobs) == {"b"}
    assert world.metering.looped == {"a": 700 * BINS}
    world.metering.gather()
    world.metering.gather()
    world.metering.read_of(["a"])
    world.metering.read()
    assert world.metering.looped == {"a": 3 * 700 * BINS}
    world.sync(jobs[1])
    assert world.metering.looped == {}


def test_what_is_gathered_is_read_together(world: World) -> None:
    world.sync(LiveJob("a", 5, (world.group("1", 11),)))
    world.meter.lost = MissingData()
    for size in (3, 4):
        world.meter.rows = [(5, "198.18.0.2", False, size)]
        world.metering.gather()
    assert world.metering.gathered == 2
    assert world.metering.gathered_s == pytest.approx(2 * BINS * 1000 / 1e9)
    assert (world.metering.cells, world.metering.begins) == (2 * BINS, True)
    gap = world.metering.gap
    reading = world.metering.read()
    assert not gap
    assert reading.jobs["a"].series.tx.tolist() == [3] * BINS + [4] * BINS
    assert reading.jobs["a"].sums.sum() == 7 * BINS
    assert len(reading.silence) == 2 * BINS
    assert (world.metering.gathered, world.metering.begins) == (0, False)
    world.meter.lost = MissingData(1, packets=2)
    world.metering.gather()
    assert world.metering.gap
    assert world.metering.lost == MissingData(1, packets=2)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["gather", "read", "a", "b", "ab"]), st.integers(0, 9)),
        min_size=1,
        max_size=12,
    )
)
def test_whoever_is_read_sooner_misses_nothing_and_nothing_twice(
    steps: list[tuple[str, int]],
) -> None:
    world, sent = World(), {"a": 0, "b": 0}
    world.meter.lost = MissingData()
    world.sync(
        LiveJob("a", 0, (world.group("1", 11), world.group("2", 12))),
        LiveJob("b", 6, (world.group("3", 13),)),
    )
    first, second = MAX_JOBS - 1, MAX_JOBS - 2
    got: dict[str, list[JobReading]] = {"a": [], "b": []}
    for what, size in [("gather", 5), *steps, ("read", 0)]:
        if what == "gather":
            world.meter.rows = [
                (first, "198.18.0.2", False, size),
                (second, "198.18.0.3", False, 1),
            ]
            if size % 2:
                world.meter.rows.append((6, "198.18.0.2", False, size))
            sent = {"a": sent["a"] + BINS * (size + 1), "b": sent["b"] + BINS * size * (size % 2)}
            world.metering.gather()
            continue
        if not world.metering.gathered_s:
            continue
        reading = world.metering.read() if what == "read" else world.metering.read_of(set(what))
        assert world.metering.gathered == 0
        for name in got if what == "read" else what:
            nothing = JobReading(reading.silence, (0, 0), NOBODYS, np.zeros((0, 2), np.int64))
            got[name].append(reading.jobs.get(name, nothing))
    for name, parts in got.items():
        assert sum(part.total[0] for part in parts) == sent[name]
        assert sum(int(part.sums.sum()) for part in parts) == sent[name]
        assert sum(int(part.series.tx.sum()) for part in parts) == sent[name]
        assert len(chained([part.series for part in parts])) == world.meter.at * BINS
        ends = [part.series.end_ns for part in parts]
        assert [part.series.start_ns for part in parts] == [0, *ends[:-1]]


def test_destinations_without_a_row_of_their_own_are_not_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sync(LiveJob("a", 5, (world.group("1", 11),)))
    world.meter.rows = [(5, "198.18.0.2", False, 3), (5, "::", False, 4)]
    window = world.meter.read()
    window.who["other"][1] = True
    monkeypatch.setattr(world.meter, "read", lambda: window)
    counted = world.metering.read().jobs["a"]
    assert counted.total == (7 * BINS, 0)
    assert counted.sums.tolist() == [[3 * BINS, 0]]
    assert len(counted.who) == 1
