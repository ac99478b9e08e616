"""One GPU, or one GPU instance of MIG, between two looks at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hostcc.measure.gpu import counters
from hostcc.measure.gpu.peaks import CORES_PER_SM, known_capability
from hostcc.measure.gpu.readings import MAX_PROCESSES, Gpu, Reading

if TYPE_CHECKING:
    from hostcc.measure.gpu.nvml import Library

USE_FRESH_S = 2.0
"""How long a process's share stays good; drivers renew it every 1/6 to 1 s."""
_SM_CLOCK = 1  # NVML_CLOCK_SM
_VERSION = 1  # NVML_GPM_METRICS_GET_VERSION


class Unit:
    """What is known about one GPU from look to look.  Methods raise DriverLostError."""

    def __init__(
        self, library: Library, uuid: str, handle: Any, instance: int | None, parts: list[Any]
    ) -> None:
        self.gpu = _describe(library, uuid, handle, instance, parts)
        self._handle = handle
        self._instance = instance
        self._parts = parts
        self._before: Any = None
        self._after: Any = None
        self._question: Any = None
        self._have_sample = False
        self._last_s: float | None = None
        self._clock_hz: float | None = None
        self._use: dict[int, float] | None = None
        self._use_at = 0.0
        self._use_seen_us = 0
        self._set_up_counters(library)

    def read(self, library: Library, clock: Callable[[], float]) -> Reading | None:
        """What happened since the last call; None the first time."""
        start, now = self._last_s, clock()
        percentages = self._counters(library)
        megahertz = library.number("nvmlDeviceGetClockInfo", self._handle, _SM_CLOCK)
        clock_hz = None if megahertz is None else megahertz * 1e6
        before, self._clock_hz, self._last_s = self._clock_hz, clock_hz, now
        if start is None or now <= start:
            return None
        active = counters.shares_of(percentages)
        clocks = [hertz for hertz in (before, clock_hz) if hertz]
        pids = self._pids(library)
        return Reading(
            gpu=self.gpu,
            start_s=start,
            end_s=now,
            clock_hz=sum(clocks) / len(clocks) if clocks else None,
            sm=active.get(counters.SM_UTIL),
            pipes=counters.pipes_of(active),
            utilisation=self._utilisation(library),
            pids=pids,
            pid_use=self._pid_use(library, now) if len(pids) > 1 else None,
        )

    def close(self, library: Library) -> None:
        """Give back what the driver's library holds for us."""
        for sample in (self._before, self._after):
            if sample is not None:
                library.ask("nvmlGpmSampleFree", sample)
        self._before = self._after = self._question = None

    def _set_up_counters(self, library: Library) -> None:
        support = library.ask("nvmlGpmQueryDeviceSupport", self._handle)
        if support is None or not support.isSupportedDevice:
            return
        self._before = library.ask("nvmlGpmSampleAlloc")
        self._after = library.ask("nvmlGpmSampleAlloc")
        if self._before is None or self._after is None:
            self.close(library)
            return
        self._question = library.module.c_nvmlGpmMetricsGet_t()
        self._question.version = _VERSION
        self._question.numMetrics = len(counters.WANTED)
        for place, metric in enumerate(counters.WANTED):
            self._question.metrics[place].metricId = metric

    def _counters(self, library: Library) -> dict[int, float]:
        """Metric -> percentage since the last call; empty where counters are not to be had."""
        question = self._question
        if question is None:
            return {}
        if self._instance is None:
            taken = library.ask("nvmlGpmSampleGet", self._handle, self._after)
        else:
            taken = library.ask("nvmlGpmMigSampleGet", self._handle, self._instance, self._after)
        had, self._have_sample = self._have_sample, taken is not None
        if taken is None:
            return {}
        self._before, self._after = self._after, self._before
        if not had:
            return {}
        question.sample1, question.sample2 = self._after, self._before  # older, newer
        if library.ask("nvmlGpmMetricsGet", question) is None:
            return {}
        return {
            metric: answer.value
            for metric, answer in zip(counters.WANTED, question.metrics, strict=False)
            if answer.nvmlReturn == 0
        }

    def _utilisation(self, library: Library) -> float | None:
        if self._instance is not None:
            return None  # the driver does not tell it under MIG
        rates = library.ask("nvmlDeviceGetUtilizationRates", self._handle)
        return None if rates is None or rates.gpu > 100 else rates.gpu / 100.0

    def _pids(self, library: Library) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for part in self._parts:
            those = library.ask("nvmlDeviceGetComputeRunningProcesses_v3", part)
            if those is None:  # drivers before 510
                those = library.ask("nvmlDeviceGetComputeRunningProcesses_v2", part)
            found.update((int(process.pid), None) for process in (those or [])[:MAX_PROCESSES])
        return tuple(found)[:MAX_PROCESSES]

    def _pid_use(self, library: Library, now: float) -> dict[int, float] | None:
        """SM use by process; the last known for a while, as drivers renew it slowly."""
        if self._instance is not None:
            return None
        samples = library.ask("nvmlDeviceGetProcessUtilization", self._handle, self._use_seen_us)
        use: dict[int, float] = {}
        for sample in (samples or [])[: 4 * MAX_PROCESSES]:
            if sample.smUtil <= 100 and sample.timeStamp > self._use_seen_us:
                use[int(sample.pid)] = use.get(int(sample.pid), 0.0) + sample.smUtil
        if use:
            self._use_seen_us = max(sample.timeStamp for sample in samples)
            self._use, self._use_at = use, now
        elif now - self._use_at > USE_FRESH_S:
            self._use = None
        return self._use


def _describe(
    library: Library, uuid: str, handle: Any, instance: int | None, parts: list[Any]
) -> Gpu:
    capability = library.ask("nvmlDeviceGetCudaComputeCapability", handle)
    if capability is not None:
        capability = (int(capability[0]), int(capability[1]))
    if instance is None:
        multiprocessors = _multiprocessors(library, handle, capability)
    else:
        multiprocessors = _of_instance(library, parts)
    megahertz = library.number("nvmlDeviceGetMaxClockInfo", handle, _SM_CLOCK)
    return Gpu(
        uuid=uuid,
        name=library.text("nvmlDeviceGetName", handle),
        capability=capability,
        multiprocessors=multiprocessors,
        max_clock_hz=megahertz * 1e6 if megahertz else None,
    )


def _multiprocessors(
    library: Library, handle: Any, capability: tuple[int, int] | None
) -> float | None:
    attributes = library.ask("nvmlDeviceGetAttributes_v2", handle)
    if attributes is not None and attributes.multiprocessorCount:
        return float(attributes.multiprocessorCount)
    cores = library.number("nvmlDeviceGetNumGpuCores", handle)
    at = None if capability is None else known_capability(capability)
    return None if not cores or at is None else cores / CORES_PER_SM[at]


def _of_instance(library: Library, parts: list[Any]) -> float | None:
    """Multiprocessors of a GPU instance, from one compute instance and its part of the slices."""
    for part in parts:
        attributes = library.ask("nvmlDeviceGetAttributes_v2", part)
        if attributes is not None and attributes.multiprocessorCount:
            slices = max(attributes.computeInstanceSliceCount, 1)
            whole = max(attributes.gpuInstanceSliceCount, slices)
            return float(attributes.multiprocessorCount * whole / slices)
    return None
