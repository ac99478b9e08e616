"""Round trips of a hostcc job on a path whose queueing delay the test decides."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.mltcp.native_build import HOSTCC, SLOT, Native, NativeJob

BASE_US = 200
MSS = 1448
BURST = 2
UNLIMITED = 0xFFFFFFFF
PLENTY = 1 << 27
"""Bytes that an application has written when it never waits."""


@dataclass
class Rounds:
    """A trusted job in the middle of its life; all flows go to one peer."""

    native: Native
    flows: int = 1
    conf: dict[str, Any] = field(default_factory=dict)
    learned: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._due_us = [0.0] * self.flows
        self.job = NativeJob(self.native, self.flows, BASE_US, HOSTCC, self.conf)
        enums = self.native.enums
        usual = {
            "iterations": 10, "total_bytes": 1 << 28, "best_comm_ns": 500_000_000,
            "usual_gap_ns": 500_000_000, "stance": enums["HCC_STANCE_SCALED"],
            "direction": enums["HCC_DIRECTION_ONE_WAY"],
            "unsettled": enums["HCC_UNSETTLED"],  # no lots: every run is the same
        }  # fmt: skip
        for name, value in (usual | self.learned).items():
            self.state[name] = value

    @property
    def state(self) -> npt.NDArray[np.void]:
        return self.native.states[SLOT : SLOT + 1].reshape(())

    @property
    def target_us(self) -> int:
        """The highest queueing delay that any job like this one would have."""
        conf = self.native.confs[SLOT : SLOT + 1].reshape(())
        return self.native.call("target_us", conf, BASE_US, int(self.state["q_loss_us"]), 1024)

    @property
    def path(self) -> npt.NDArray[np.void]:
        """Its only peer's."""
        number = self.native.call("path", 0)
        return self.native.paths[number : number + 1].reshape(())

    @property
    def window(self) -> float:
        """Packets that all flows together may have out."""
        return float(self.path["window_q10"]) / self.native.enums["HCC_ONE"]

    def write(self, size: int = PLENTY) -> None:
        for flow in range(self.flows):
            self.native.call("write", flow, self.job.now_us, size)
            self.leave(flow)

    def pace(self, flow: int = 0) -> int | None:
        """Bytes a second; None: none."""
        rate = self.native.call("pace", flow)
        return rate if 0 < rate < UNLIMITED else None

    def gap_us(self, flow: int = 0) -> float:
        """How long a paced flow takes for a burst."""
        pace = self.pace(flow)
        return BURST * MSS * 1e6 / pace if pace else 0.0

    def leave(self, flow: int, most: int = 1 << 20) -> None:
        """Send what the window lets go; a paced flow sends one burst, and then pauses."""
        self.native.call("leave", flow, min(most, BURST) if self.pace(flow) else most)
        self._due_us[flow] = self.job.now_us + self.gap_us(flow)

    def round(self, queue_us: int, most: int = 1 << 20) -> None:
        """All that is out is acknowledged, then as much leaves as may, up to `most` a flow."""
        rtt = BASE_US + queue_us
        self.job.now_us += rtt
        for flow in range(self.flows):
            if out := self.native.call("out", flow):
                self.native.call("take", flow, self.job.now_us, out, rtt)
            if self.pace(flow) is None or self.job.now_us >= self._due_us[flow]:
                self.leave(flow, most)

    def rounds(self, count: int, queue_us: int, most: int = 1 << 20) -> None:
        for _ in range(count):
            self.round(queue_us, most)

    def until_window(self, packets: float) -> None:
        """Grow on an empty path."""
        for _ in range(200):
            if self.window >= packets:
                return
            self.round(0)
        raise AssertionError(f"the window stays at {self.window}")


def floor_packets(gap_us: float, queue_us: int) -> float:
    """The smallest window: a burst every gap."""
    return math.floor(BURST * 1024 * (BASE_US + queue_us) / (gap_us + 1)) / 1024
