"""GPU samples given to jobs; the driver is one in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.measure import GpuConfig
from hostcc.daemon.profiling.gpu_work import Gpus
from hostcc.measure.discover.owners import Owners
from hostcc.measure.gpu.readings import Gpu, Reading, Sample
from tests import patience
from tests.daemon.declared import check_declared
from tests.daemon.profiling.hosts import OWN, ToyHost

pytestmark = pytest.mark.unit


class Driver:
    """One GPU that process 7 keeps half busy, or none."""

    def __init__(self, why: str = "") -> None:
        self.why = why

    def sample(self) -> Sample:
        if self.why:
            return Sample(why=self.why)
        now = time.monotonic()
        gpu = Gpu("GPU-1", capability=(8, 0), multiprocessors=108, max_clock_hz=1.4e9)
        return Sample((Reading(gpu, now - 0.1, now, utilisation=0.5, pids=(7,)),))

    def close(self) -> None:
        pass


class Seven(Owners):
    def of(self, pid: int) -> str | None:
        return "train" if pid == 7 else None


def until(part: Gpus, done: Callable[[], bool]) -> None:
    patience.until(done, "the part", meanwhile=lambda: asyncio.run(part.tick()))


def test_work_goes_to_the_job_of_the_process(tmp_path: Path) -> None:
    part = Gpus(ToyHost(tmp_path), Seven, lambda: ["train"], Driver)
    part.start()
    until(part, lambda: len(part.intervals("train")) >= 2)
    assert part.intervals("other") == ()
    assert part.intervals("train")[0].busy == 0.5
    assert (part.view().gpus, part.why) == (1, "")
    check_declared(part)
    part.stop()


@pytest.mark.parametrize("others", [[], ["other"]])
def test_a_job_that_comes_back_under_its_name_has_done_nothing_yet(
    tmp_path: Path, others: list[str]
) -> None:
    """Beside jobs that go on, and where the part had stopped because there was none."""
    jobs = [*others, "train"]
    part = Gpus(ToyHost(tmp_path), Seven, lambda: jobs, Driver)
    part.start()
    until(part, lambda: len(part.intervals("train")) >= 2)
    jobs.remove("train")
    if part.disabled_reason():
        part.stop()
        part.start()
    else:
        asyncio.run(part.tick())
    jobs.append("train")
    assert part.intervals("train") == ()


def test_no_gpu_is_read_without_a_driver_that_was_there(tmp_path: Path) -> None:
    driver = Driver()
    part = Gpus(ToyHost(tmp_path), Seven, lambda: ["train"], lambda: driver)
    part.start()
    until(part, lambda: part.view().gpus == 1)
    driver.why = "the NVIDIA driver is not loaded"
    until(part, lambda: part.why == driver.why)
    assert part.view().gpus == 0
    part.stop()


def test_why_there_is_nothing(tmp_path: Path) -> None:
    host = ToyHost(tmp_path)
    part = Gpus(host, Seven, lambda: ["train"], lambda: Driver("no NVIDIA driver"))
    part.start()
    until(part, lambda: part.why == "no NVIDIA driver")
    assert part.view().reason == "no NVIDIA driver"
    part.stop()
    host.config = Config(agent=OWN, gpu=GpuConfig(enabled=False))
    assert part.why == "gpu.enabled is false"
    host.config = Config(agent=OWN)
    assert Gpus(host, Seven, list, Driver).disabled_reason() == "no jobs"
