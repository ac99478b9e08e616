"""One steady profile of each job, and the record that is published of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hostcc.coord.core.payloads import PROFILE, Content, Profile
from hostcc.daemon.gossip import profile_records
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.hysteresis import CONFIRM_S
from hostcc.daemon.gossip.profile_store import CHANGE_S, READ_S, ProfileStore
from hostcc.model import JobProfile
from tests.daemon.gossip.sources import ToySource
from tests.daemon.gossip.test_hysteresis import GUESS, SURE

pytestmark = pytest.mark.unit


def test_turns_come_with_the_clock_of_the_day() -> None:
    now, one = [0.0], [GUESS]
    store = ProfileStore(ToySource(lambda: one), Cluster(), lambda: now[0], lambda: 1e9 + now[0])
    seen = []
    while now[0] < 4 * CHANGE_S:
        one = [SURE if now[0] < 1 else replace(SURE, period_s=0.5)] if now[0] else [GUESS]
        if store.steady()[0].period_s == 0.5:
            seen.append(1e9 + now[0])
        now[0] += READ_S
    assert seen[0] // CHANGE_S == (seen[0] - READ_S) // CHANGE_S + 1
    assert seen[0] >= 1e9 + 1 + CONFIRM_S


def test_only_jobs_that_there_are_and_not_at_every_question() -> None:
    now, measured = [0.0], [GUESS, replace(SURE, job="k")]
    asked = []

    def measure() -> list[JobProfile]:
        asked.append(now[0])
        return measured

    store = ProfileStore(ToySource(measure), Cluster(), lambda: now[0])
    assert [one.job for one in store.steady()] == ["j", "k"]
    measured = []
    assert len(store.steady()) == 2
    now[0] = READ_S
    assert store.steady() == []
    assert asked == [0.0, READ_S]
    store.expire()
    assert store.steady() == []
    assert asked == [0.0, READ_S, READ_S]


def test_a_job_that_something_else_limits_needs_longer_than_its_links() -> None:
    now, one = [0.0], replace(SURE, comm_s=0.05, bytes_to=(("h2", 4e6), ("h3", 2e6)))
    guess = replace(GUESS, job="k")
    store = ProfileStore(ToySource(lambda: [one, guess]), Cluster(), lambda: now[0], lambda: now[0])
    assert store.steady()[0].comm_s == 0.05
    store.lone_rates = {one.job: 6e7, guess.job: 6e7}
    while store.steady()[0].comm_s == 0.05 and now[0] < 60:
        now[0] += READ_S
    assert store.steady()[0].comm_s == pytest.approx(0.1)
    assert store.steady()[1].comm_s == guess.comm_s, "what an iteration is, is not known"
    store.lone_rates = {one.job: 6e8}
    while store.steady()[0].comm_s != 0.05 and now[0] < 120:
        now[0] += READ_S
    assert store.steady()[0].comm_s == 0.05, "the links are slower"


class Published(Cluster):
    """Takes what is told, as members would that have no bounds."""

    def publish(self, kind: str, contents: Mapping[str, Content]) -> None:
        assert kind == PROFILE
        self._published = {(kind, job): content for job, content in contents.items()}

    def published(self, kind: str, key: str) -> Content | None:
        return self._published.get((kind, key))


class Stage:
    """A store whose records are published, and how often one was made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.made = 0.0, 0
        self.measured, self.live = [SURE], {"j": 1.0}
        self.members: dict[str, str] = {}
        self.cluster = Published()
        source = ToySource(lambda: self.measured, lambda: self.live)
        self.store = ProfileStore(source, self.cluster, lambda: self.now, lambda: self.now)
        content = profile_records.content

        def counted(
            measured: JobProfile, before: Profile | None, members: Mapping[str, str]
        ) -> Profile:
            self.made += 1
            return content(measured, before, members)

        monkeypatch.setattr(profile_records, "content", counted)

    def publish(self, after_s: float = READ_S) -> dict[str, Profile]:
        self.now += after_s
        records = self.store.records(self.members)
        self.cluster.publish(PROFILE, records)
        return records


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_record_is_made_once_and_anew_for_other_members(stage: Stage) -> None:
    first = stage.publish()["j"]
    for _ in range(20):
        stage.measured = [replace(SURE, period_s=0.252)]  # no change, for the hysteresis
        assert stage.publish() == {"j": first}
    assert stage.made == 1
    stage.members = {"b": "bob"}
    assert [to for to, _ in stage.publish()["j"].to] == ["bob"]
    stage.publish()
    assert stage.made == 2


def test_a_record_keeps_its_steps_from_one_profile_to_the_next(stage: Stage) -> None:
    first = stage.publish()["j"]
    stage.measured = [replace(SURE, work=1.06e12, weight=2.0)]  # the weight is another
    stage.publish(after_s=100.0)
    changed = stage.publish(after_s=CONFIRM_S)["j"]
    assert (changed.weight, changed.work) == (2.0, first.work)
    assert stage.made == 2


def test_what_nobody_took_is_tried_again(stage: Stage) -> None:
    records = stage.store.records(stage.members)
    assert stage.store.records(stage.members) == records
    assert stage.made == 2


def test_a_job_that_is_measured_no_more_keeps_its_record_for_a_while(stage: Stage) -> None:
    first = stage.publish()["j"]
    stage.measured = []
    assert stage.publish(after_s=profile_records.KEEP_S) == {"j": first}
    assert stage.publish(after_s=1.0) == {}
    stage.measured = [SURE]
    assert stage.publish() == {"j": first}
    stage.live = {}
    assert stage.publish() == {}


def test_of_jobs_with_rdma_others_get_what_is_not_measured(stage: Stage) -> None:
    stage.store.rdma = {"j": {"c": 1e9}, "k": {"c": 1e9}}
    stage.measured = [replace(SURE, work=0.0)]
    stage.live = {"j": 1.0, "k": 4.0}
    own, guess = stage.store.published()
    assert (own.job, own.work) == ("j", 0.0)  # unknown; the view assumes it
    assert (guess.job, guess.weight, guess.confidence) == ("k", 4.0, 0.0)
    assert stage.store.steady() == stage.measured
    assert set(stage.publish()) == {"j", "k"}
    stage.store.rdma = {}
    assert stage.publish()["j"].work == 0.0
    assert stage.publish(after_s=profile_records.KEEP_S + 1).keys() == {"j"}


def test_the_latest_measurement_is_not_held_back(stage: Stage) -> None:
    stage.store.steady()
    stage.measured = [replace(SURE, period_s=9.0)]
    assert stage.store.latest("j") is stage.measured[0]
    assert stage.store.latest("k") is None
