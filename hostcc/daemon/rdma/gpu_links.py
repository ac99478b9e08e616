"""Asks which processes use which GPUs, by bus id, and what goes over the GPUs' PCIe links.

The driver can take long, so this is asked in a thread; without one there is nothing to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from hostcc.measure.gpu.nvml import DriverLostError, Library
from hostcc.measure.gpu.readings import MAX_PROCESSES
from hostcc.pcie import contention
from hostcc.pcie.tree import Tree


@dataclass(frozen=True)
class GpuUse:
    """What the driver answered; empty without one."""

    of: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Process -> GPUs."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """GPU -> bytes per second over PCIe in its busier direction."""


def look(tree: Tree, *, rates: bool) -> GpuUse:
    """Ask NVML.  `rates` takes 40 ms for each GPU."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - no driver, no library, no GPU: nothing to know
        return GpuUse()
    library = Library(pynvml)
    try:
        moved = contention.gpu_rates(library.ask, tree) if rates else {}
        return GpuUse(_processes(library), moved)
    except DriverLostError:
        return GpuUse()
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _processes(library: Library) -> dict[int, tuple[str, ...]]:
    found: dict[int, list[str]] = {}
    for gpu, handle in contention.gpus(library.ask):
        running = library.ask("nvmlDeviceGetComputeRunningProcesses", handle) or []
        for process in running[:MAX_PROCESSES]:
            found.setdefault(int(process.pid), []).append(gpu)
    return {pid: tuple(gpus) for pid, gpus in found.items()}
