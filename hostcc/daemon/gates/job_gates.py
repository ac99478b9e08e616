"""What gates need of a transport: a place for deadlines, and news of bursts.

TCP has it in the congestion control (kernel_gates.py), RDMA in the shim (shim_gates.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, Protocol

from hostcc.model import Difference
from hostcc.schedule.gates.groups import Exchange

MIN_CHANGE_S = 0.0005
"""A deadline that differs by less is not written."""
MIN_SILENCE_S = 0.002


class BurstEvent(IntEnum):
    """enum hcc_event_kind: what is reported of a burst."""

    BEGIN = 1
    HELD = 2
    OPENED = 3
    END = 4


class Burst(NamedTuple):
    """An event of a job's burst on this host."""

    job: str
    event: BurstEvent
    at_s: float
    """Monotonic clock."""


class Gate(NamedTuple):
    """The gate of a job's bursts on this host, while it is armed."""

    closed_until_s: float
    """Monotonic clock; 0: it is open."""
    exchange: Exchange
    silence_s: float = 0.0
    """Nothing on its way for so long: an iteration is over, as its owner says; 0: not said."""

    def differs(self, written: Gate | None) -> bool:
        """Tell whether it has to be written, after `written`."""
        if written is None or written[1:] != self[1:]:
            return True
        return abs(written.closed_until_s - self.closed_until_s) > MIN_CHANGE_S

    @property
    def usual_silence_s(self) -> float:
        """The same; half of the job's usual silence where nobody has said."""
        usual_s = (self.exchange.period_s - self.exchange.burst_s) / 2
        return self.silence_s or max(MIN_SILENCE_S, usual_s)


class Holds(NamedTuple):
    """What was held of a job."""

    turns: int = 0
    """Bursts that waited."""
    held_s: float = 0.0
    """For how long."""
    iterations: int = 0
    """That were counted."""


class JobGates(Protocol):
    """The gates of jobs that send by one transport."""

    def arm(self, gates: Mapping[str, Gate]) -> None:
        """Write these gates, and disarm all others."""

    def holds(self) -> Mapping[str, Holds]:
        """Return what was held of each job that sends so."""

    def differences(self) -> list[Difference]:
        """Find gates that are not as they were written."""
