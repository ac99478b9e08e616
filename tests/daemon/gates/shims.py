"""Processes with the shim: their files, and the plan that they would read."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import Popen

from hostcc.daemon.gates.shim_gates import ShimGates
from hostcc.verbs import plan_region
from hostcc.verbs.burst_states import Phase
from hostcc.verbs.plan_region import BurstGate, CountsEntry, PlanRegion, RdmaJob


class Shims:
    """Of one host."""

    def __init__(self, folder: Path) -> None:
        self.counts = folder / "qp"
        self._plan = folder / "plan"
        self.region: PlanRegion | None = None
        self.jobs: dict[str, list[int]] = {}
        """Job -> its processes."""
        self.spaces: dict[int, str] = {}
        """Process -> what its file is called, of those in a PID namespace of their own."""
        self._states: dict[int, CountsEntry] = {}

    def gates(self) -> ShimGates:
        return ShimGates(lambda: self.region, self._processes)

    def path_of(self, pid: int) -> Path:
        """Its file of counters."""
        return self.counts.with_name(f"{self.counts.name}.{self.spaces.get(pid, pid)}")

    def publish(self) -> PlanRegion:
        """A new plan, of all jobs."""
        self.region = PlanRegion.create(self._plan, jobs=8)
        self.region.publish([RdmaJob(name) for name in self.jobs])
        return self.region

    def add(self, job: str, pid: int = 0) -> int:
        """One more process; its number, which is ours unless it is given."""
        pid = pid or os.getpid()
        self.jobs.setdefault(job, []).append(pid)
        self._states[pid] = CountsEntry(magic=plan_region.MAGIC, version=plan_region.VERSION)
        self._write(pid)
        return pid

    def says(
        self, pid: int, phase: Phase, at_s: float, held_s: float = 0.0, *, again: bool = True
    ) -> None:
        """It is in this phase since then, after it was held for so much longer; `again`: a burst
        that waits or has not waited is one more."""
        state = self._states[pid]
        if again and phase is not Phase.IDLE and state.burst & 3 != Phase.HELD:
            state.bursts += 1
        state.holds += phase is Phase.HELD or (held_s > 0 and state.burst & 3 != Phase.HELD)
        state.held_ns += round(held_s * 1e9)
        state.burst = round(at_s * 1e9) & ~3 | phase
        self._write(pid)

    def gate(self, job: str) -> BurstGate | None:
        assert self.region is not None
        return self.region.gate(job)

    def _processes(self) -> dict[str, dict[int, Path]]:
        return {job: {pid: self.path_of(pid) for pid in pids} for job, pids in self.jobs.items()}

    def _write(self, pid: int) -> None:
        path = self.path_of(pid)
        with path.open("r+b" if path.exists() else "wb") as file:
            file.write(bytes(self._states[pid]))


def sleeper() -> Popen[bytes]:
    """Another process of ours."""
    return Popen(["sleep", "600"])
