"""The soak: what is drawn from a seed, how growth is judged, and five minutes of it."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import soak, soak_configs
from benchmarks.context import Context
from benchmarks.soak_events import (
    AT_ONCE,
    HOSTS,
    LASTS_S,
    MOST_JOBS,
    Event,
    Kind,
    StartMode,
    events,
)
from benchmarks.soak_samples import SETTLED_S, Sample, growth, kept, lives, slope
from benchmarks.soak_stage import SoakStage
from hostcc.config.load import load
from hostcc.errors import InputError
from hostcc.lab.toml import dump
from hostcc.lab.variants import merge
from tests import patience

SEED = int(os.environ.get("HOSTCC_SOAK_SEED", "1"))
MINUTES = 5
SECONDS = 300.0


@pytest.mark.unit
@given(st.integers(0, 2**31 - 1), st.floats(1.0, 600.0))
def test_what_begins_ends_and_nothing_is_in_two_states_at_once(seed: int, seconds: float) -> None:
    drawn = events(seed, seconds)
    assert drawn == events(seed, seconds)
    assert [one.at_s for one in drawn] == sorted(one.at_s for one in drawn)
    going: dict[int, Event] = {}
    for one in drawn:
        assert 0 <= one.at_s <= seconds
        if not one.begins:
            begun = going.pop(one.number)
            assert (begun.kind, begun.host, begun.job) == (one.kind, one.host, one.job)
            assert one.at_s - begun.at_s <= LASTS_S[one.kind][1] + 1e-6
            continue
        if one.kind not in AT_ONCE:
            going[one.number] = one
        lanes = Counter(lane(other) for other in going.values())
        assert lanes.pop("job", 0) <= MOST_JOBS
        assert set(lanes.values()) <= {1}
    assert going == {}


def lane(event: Event) -> str:
    if event.kind in {Kind.STOP, Kind.KILL, Kind.PAUSE}:
        return f"agent {event.host}"
    return event.kind if event.kind in {Kind.JOB, Kind.PATH} else f"{event.kind} {event.host}"


@pytest.mark.unit
def test_in_five_minutes_everything_happens_and_seeds_differ() -> None:
    drawn = [one for one in events(SEED, SECONDS) if one.begins]
    assert {one.kind for one in drawn} == set(Kind)
    assert {one.job.how for one in drawn if one.job} == set(StartMode)
    assert {one.host for one in drawn if one.kind is Kind.KILL} == set(HOSTS)
    wrong = [soak_configs.choice(x.amount)[1] for x in drawn if x.kind is Kind.RELOAD]
    assert None in wrong
    assert len(set(wrong)) > 1
    assert [str(x) for x in drawn] != [str(x) for x in events(SEED + 1, SECONDS) if x.begins]


@pytest.mark.unit
def test_right_configurations_are_right_and_wrong_ones_wrong(tmp_path: Path) -> None:
    path, found = tmp_path / "hostcc.toml", []
    first = merge(soak_configs.BASE, {"gossip": {"enabled": True}})  # as the lab has it
    for over in ({}, *soak_configs.VALID):
        path.write_text(dump(merge(first, over)))
        found.append(load(path))
    assert all(one != found[0] for one in found[1:])
    for text in soak_configs.INVALID:
        path.write_text(text)
        with pytest.raises(InputError):
            load(path)


def sample(at_s: float, resident: int, host: str = "h1", pid: int = 1) -> Sample:
    return Sample(at_s, host, pid, resident, 30, 5, 40, 10)


@pytest.mark.unit
def test_growth_is_of_hosts_and_slopes_are_of_lives() -> None:
    def resident(one: Sample) -> float:
        return one.resident_bytes

    flat = [sample(5.0 * n, 80_000_000 + (n % 3)) for n in range(30)]
    other = [sample(5.0 * n, 1_000 * n, "h2", 2 + n // 40) for n in range(60)]
    assert growth(flat, resident) == 0
    assert growth([*flat, *other], resident) == 40_000
    assert len(lives([*flat, *other])) == 3
    found = slope(other, resident)
    assert found is not None
    assert found == pytest.approx(200.0)
    assert slope([one for one in other if one.at_s < SETTLED_S], resident) is None


def figures(**over: object) -> soak.Figures:
    made = soak.Figures(
        7, 5.0, {"job": 3}, 0, 0.1, 9, 10**9, 4, 2, 1, 2, 1, 0.0, None, 0, 0, 0, 0, 0, 0, 0, 0, []
    )
    return msgspec.structs.replace(made, **over)


@pytest.mark.unit
def test_whatever_is_not_as_it_should_be_is_a_failure_that_names_the_seed() -> None:
    assert soak.record(figures()).met
    counts = ("leaked_entries", "leaked_objects", "unverified", "changed", "outlived", "left")
    for key in counts:
        assert len(soak.record(figures(**{key: 1})).failures) == 1
    record = soak.record(figures(troubles=["event 3 at 4.0 s: it broke"]))
    assert record.failures[0] == "seed 7: event 3 at 4.0 s: it broke"
    assert record.notes == ["the same again: --seed 7 --minutes 5"]
    assert soak.record(None, ["seed 7: no"]).failures == ["seed 7: no"]


@pytest.mark.kernel
def test_what_breaks_is_noticed() -> None:
    """An agent and a stream that end although nothing should have ended them."""
    job = next(one for one in events(SEED, SECONDS) if one.job and one.job.how is StartMode.RUN)
    player = soak.Player(SEED, Context(1, None))
    with SoakStage() as stage:
        stage.hear()
        player.play(stage, [replace(job, at_s=0.0)], SECONDS)
        assert player.troubles == []
        stage.agents["h2"].process.kill()
        patience.until(lambda: stage.agents["h2"].process.poll() is not None, "its end")
        (said,) = stage.check()
        assert said.startswith(f"the agent of h2 ended by itself, status {-signal.SIGKILL}")
        assert stage.check() == []
        assert stage.agents["h2"].process.poll() is None
        assert job.job is not None
        receiver = stage.process(job.job.name)
        receiver.kill()
        receiver.wait()
        (said,) = stage.check()
        assert said.startswith(f"{job.job.name} broke")
        stage.steady()
        stage.calm()  # also of what the killed one has left
        left = stage.left()
        assert any("hostcc" in one and "agent" in one for one in left)  # they still run


@pytest.mark.kernel
@pytest.mark.timeout(1800)
def test_five_minutes(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    soak.add_options(parser)
    args = parser.parse_args(["--minutes", str(MINUTES), "--seed", str(SEED)])
    print(f"seed {SEED}: HOSTCC_SOAK_SEED={SEED} chooses it")
    began = time.monotonic()
    record = soak.run(args, Context(1, tmp_path, say=print))
    print(f"{time.monotonic() - began:.0f} s; {record.rows}")
    assert record.failures == []
    measured = {str(row["what"]): row["measured"] for row in record.rows}
    assert set(map(str, Kind)) <= measured.keys()
    assert len(lives(kept(tmp_path / "samples.jsonl"))) > len(HOSTS)
    assert soak.draw(record, tmp_path) == [tmp_path / "soak.png"]
    again = soak.run(args, Context(1, tmp_path, report_only=True))
    assert again.rows == record.rows
