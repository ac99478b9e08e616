"""Gates in the congestion control: of jobs that send by TCP."""

from __future__ import annotations

from collections.abc import Mapping

from hostcc.daemon.enforcement import Engine
from hostcc.daemon.gates.job_gates import Burst, BurstEvent, Gate, Holds
from hostcc.mltcp.backend import Records
from hostcc.model import Difference


class KernelGates:
    """The gates of an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._written: dict[int, Gate] = {}
        """Slot -> its gate."""

    def arm(self, gates: Mapping[str, Gate]) -> None:
        """Write these gates, and disarm all others."""
        jobs = self.engine.table.jobs
        armed = {jobs[name].slot: gate for name, gate in gates.items() if name in jobs}
        backend = self.engine.backend
        for slot in self._written.keys() - armed.keys():
            backend.set_gate(slot, armed=False)
            del self._written[slot]
        for slot, gate in armed.items():
            if gate.differs(self._written.get(slot)):
                until_ns = int(gate.closed_until_s * 1e9)
                backend.set_gate(slot, armed=True, closed_until_ns=until_ns)
                self._written[slot] = gate

    def bursts(self, records: Records) -> list[Burst]:
        """Return what the kernel reports of jobs whose gates are armed."""
        jobs = self.engine.table.by_slot()
        columns = (records[name].tolist() for name in ("slot", "kind", "at_ns"))
        return [
            Burst(jobs[slot].name, BurstEvent(kind), at_ns / 1e9)
            for slot, kind, at_ns in zip(*columns, strict=True)
            if slot in jobs and slot in self._written
        ]

    def holds(self) -> dict[str, Holds]:
        """Return what was held of each job."""
        states = self.engine.backend.job_states()
        return {
            name: Holds(int(one["holds"]), float(one["held_ns"]) / 1e9, int(one["iterations"]))
            for name, job in self.engine.table.jobs.items()
            for one in (states[job.slot],)
        }

    def differences(self) -> list[Difference]:
        """Find nothing: nobody else can write the map."""
        return []
