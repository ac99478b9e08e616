"""A job that comes again starts with what was learned, until it is measured or is another one."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import msgspec
import pytest

from hostcc.answers.parts import MemoryPart
from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.daemon.profiling import memory_file
from hostcc.daemon.profiling.job_memory import JobMemory
from hostcc.daemon.profiling.tracks import SENDING_WITHIN_S, Track
from hostcc.model import JobProfile
from tests.daemon.declared import check_declared
from tests.daemon.profiling.hosts import ToyHost
from tests.daemon.profiling.test_remembered import JOB, MEASURED

pytestmark = pytest.mark.unit

GUESS = replace(
    MEASURED, comm_start_s=0.0, period_s=1.0, bytes_to=(("10.0.0.1", 4e6),), confidence=0.0
)
MB = 1_000_000
NOW_NS = 100 * 10**9


class Stage:
    """Memories of one host, one after the other."""

    def __init__(self, folder: Path) -> None:
        config = Config(agent=AgentConfig(run_dir=str(folder / "run"), network_namespaces="own"))
        self.host = ToyHost(folder, config)
        self.now_ns = NOW_NS
        self.path = folder / "run" / memory_file.NAME
        self.memory = self.anew()

    def anew(self) -> JobMemory:
        self.memory = JobMemory(self.host, lambda: self.now_ns)
        return self.memory

    async def restart(self) -> JobMemory:
        await self.memory.stop()
        await self.anew().start()
        return self.memory

    def track(self, sent: int = MB) -> Track:
        to = {ip_address("10.0.0.1"): (float(sent), 0.0)}
        return Track("train", first_ns=self.now_ns, last_ns=self.now_ns, total=(sent, 0), to=to)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def figures(of: JobProfile | None) -> tuple[object, ...]:
    assert of is not None
    return of.period_s, of.compute_s, of.comm_start_s, of.comm_s, of.work, of.bytes_to


@pytest.mark.asyncio
async def test_the_next_agent_knows_a_job_from_its_first_bytes(stage: Stage) -> None:
    assert stage.memory.complete(JOB, stage.track(), None) is None
    assert stage.memory.complete(JOB, stage.track(), GUESS) is GUESS
    assert stage.memory.complete(JOB, stage.track(), MEASURED) is MEASURED
    assert stage.memory.recalled("train") is None
    memory = await stage.restart()
    assert memory.complete(JOB, stage.track(sent=1000), None) is None
    track = stage.track()
    first = memory.complete(JOB, track, None)
    assert figures(first) == figures(MEASURED)
    assert first is not None
    assert first.recalled
    assert memory.complete(JOB, track, None) is first
    known = memory.recalled("train")
    assert known is not None
    assert (known.period_s, known.tx_bytes) == (2.0, 8e6)
    assert memory.view() == MemoryPart(jobs=1, recalled=1)
    check_declared(memory)


@pytest.mark.asyncio
async def test_jobs_that_ran_before_are_expected_until_they_are_measured(stage: Stage) -> None:
    assert stage.memory.expected([JOB]) == {}
    stage.memory.complete(JOB, stage.track(), MEASURED)
    assert stage.memory.expected([JOB]) == {}
    memory = await stage.restart()
    others = [JOB._replace(name="other"), JOB._replace(uid=None), JOB._replace(uid=0)]
    assert memory.expected(others) == {}
    (known,) = memory.expected([*others[:2], JOB]).values()
    assert known.to == MEASURED.bytes_to
    memory.complete(JOB, stage.track(), None)
    assert memory.expected([JOB]) == {"train": known}
    memory.complete(JOB, stage.track(), MEASURED)
    assert memory.expected([JOB]) == {}


@pytest.mark.asyncio
async def test_a_measurement_ends_it_and_doubts_do_not_bring_it_back(stage: Stage) -> None:
    stage.memory.complete(JOB, stage.track(), MEASURED)
    memory = await stage.restart()
    memory.complete(JOB, stage.track(), None)
    longer = replace(MEASURED, period_s=3.0)
    assert memory.complete(JOB, stage.track(), longer) is longer
    assert memory.recalled("train") is None
    assert memory.complete(JOB, stage.track(), GUESS) is GUESS
    # Its next life begins with what was learned last.
    memory.keep(())
    again = memory.complete(JOB, stage.track(), GUESS)
    assert again is not None
    assert again.period_s == 3.0


@pytest.mark.asyncio
async def test_another_user_or_declaration_is_another_job(stage: Stage) -> None:
    stage.memory.complete(JOB, stage.track(), MEASURED)
    stage.memory.keep(())
    for job in (JOB._replace(uid=0), JOB._replace(uid=None), JOB._replace(flops=2e12)):
        assert stage.memory.complete(job, stage.track(), None) is None
        stage.memory.keep(())
    assert stage.memory.complete(JOB, stage.track(), None) is not None


@pytest.mark.asyncio
async def test_what_nobody_answers_for_is_not_remembered(stage: Stage) -> None:
    of_a_rule = JOB._replace(uid=None, how="port rule")
    assert stage.memory.complete(of_a_rule, stage.track(), MEASURED) is MEASURED
    await stage.memory.tick()
    assert not stage.path.exists()
    assert stage.memory.view().jobs == 0


@pytest.mark.asyncio
async def test_a_job_that_sends_differently_is_another_one(stage: Stage) -> None:
    stage.memory.complete(JOB, stage.track(), MEASURED)
    stage.memory.keep(())
    assert stage.memory.complete(JOB, stage.track(), None) is not None
    assert stage.memory.complete(JOB, stage.track(sent=13 * MB), GUESS) is GUESS
    assert stage.memory.recalled("train") is None
    assert stage.memory.complete(JOB, stage.track(), GUESS) is GUESS


@pytest.mark.asyncio
async def test_a_job_that_is_silent_is_no_load(stage: Stage) -> None:
    stage.memory.complete(JOB, stage.track(), MEASURED)
    stage.memory.keep(())
    track = stage.track()
    assert stage.memory.complete(JOB, track, None) is not None
    stage.now_ns += int(1e9 * SENDING_WITHIN_S)
    assert stage.memory.complete(JOB, track, None) is None
    assert stage.memory.recalled("train") is None
    track.last_ns = stage.now_ns
    assert stage.memory.complete(JOB, track, None) is not None


@pytest.mark.asyncio
async def test_other_destinations_and_weights_are_told(stage: Stage) -> None:
    stage.memory.complete(JOB, stage.track(), MEASURED)
    stage.memory.keep(())
    track = stage.track()
    stage.memory.complete(JOB, track, None)
    heavier = stage.memory.complete(JOB._replace(weight=5.0), track, None)
    assert heavier is not None
    assert heavier.weight == 5.0
    track.to = {ip_address("10.9.9.9"): (1e6, 0.0)}
    moved = stage.memory.complete(JOB, track, None)
    assert moved is not None
    assert moved.bytes_to == (("10.9.9.9", 8e6),)


@pytest.mark.asyncio
async def test_an_unusable_file_is_reported_once_and_replaced(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.path.write_text("{}")
    await stage.memory.start()
    assert [one.message for one in caplog.records] == ["nothing is remembered of earlier jobs"]
    assert str(stage.path) in str(stage.memory.view().reason)
    stage.memory.complete(JOB, stage.track(), MEASURED)
    await stage.memory.tick()
    assert stage.memory.view().reason is None
    assert len(memory_file.read(stage.path)) == 1


@pytest.mark.asyncio
async def test_a_full_disk_costs_only_the_file(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write = memory_file.write
    monkeypatch.setattr(memory_file, "write", full)
    stage.memory.complete(JOB, stage.track(), MEASURED)
    for _ in range(3):
        await stage.memory.tick()
    assert [one.message for one in caplog.records] == ["what was learned of jobs is not on disk"]
    assert "No space left" in str(stage.memory.view().reason)
    stage.memory.keep(())
    assert stage.memory.complete(JOB, stage.track(), None) is not None
    monkeypatch.setattr(memory_file, "write", write)
    await stage.memory.tick()
    assert len(memory_file.read(stage.path)) == 1


@pytest.mark.asyncio
async def test_nothing_is_written_while_nothing_is_new(stage: Stage) -> None:
    stage.memory.complete(JOB, stage.track(), MEASURED)
    await stage.memory.tick()
    stage.path.unlink()
    stage.memory.complete(JOB, stage.track(), replace(MEASURED, period_s=2.01))
    await stage.memory.tick()
    assert not stage.path.exists()


def test_it_runs_where_jobs_are_measured(stage: Stage) -> None:
    assert stage.memory.disabled_reason() == ""
    off = msgspec.structs.replace(stage.host.config.measure, enabled=False)
    stage.host.config = msgspec.structs.replace(stage.host.config, measure=off)
    assert stage.memory.disabled_reason() == "measure.enabled is false"
    assert stage.memory.verify() == []
