"""Pure: the points of a sweep, one factor at a time around the unchanged scenario.

The bottleneck's queue keeps its length in time when the rate changes, as a switch with a
buffer to match its ports would: `buffer_packets` packets at the scenario's own rate.  At 1
Gbit/s packets are 9000 bytes, so that a small machine can send them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from hostcc.lab.override import without_none
from hostcc.lab.scenario import FabricSpec, Scenario, from_document
from hostcc.lab.scenario_hosts import packet_bytes

RATES_MBIT = (100.0, 200.0, 500.0, 1000.0)
BUFFERS = (0.5, 1.0, 2.0, 8.0)
"""Times the default."""
RTTS_US = (50, 1000, 10_000)
JITTER_PERCENT = 5.0
JUMBO_RATE_MBIT = 1000.0
JUMBO_MTU = 9000
MIN_BUFFER_PACKETS = 2
ARRIVAL_FRACTION = 0.2
"""Of the run's length: when the second job arrives; each further one as much later."""
STAY_FRACTION = 0.5
"""Of the run's length: how long the second job stays."""


@dataclass(frozen=True)
class Point:
    """One setting of one factor."""

    factor: str
    value: str
    apply: Callable[[Scenario], Scenario]
    extreme: bool = False
    """Part of the short version."""

    @property
    def key(self) -> str:
        """For file names."""
        return f"{self.factor}-{self.value}".replace(" ", "")


def points(scenario: Scenario) -> list[Point]:
    """Every point, without those that are the scenario itself, which comes first."""
    spec = scenario.fabric
    found = [Point("none", "default", lambda wanted: wanted, extreme=True)]
    found += [
        Point("rate", f"{rate:g} Mbit", _at_rate(rate), rate in (RATES_MBIT[0], RATES_MBIT[-1]))
        for rate in RATES_MBIT
        if rate != spec.rate_mbit
    ]
    found += [
        Point("buffer", f"{times:g} x", _with_buffer(times), times in (BUFFERS[0], BUFFERS[-1]))
        for times in BUFFERS
        if times != 1
    ]
    found += [
        Point("rtt", f"{rtt / 1000:g} ms", _at_rtt(rtt), rtt == RTTS_US[-1])
        for rtt in RTTS_US
        if rtt != spec.base_rtt_us
    ]
    found.append(Point("jitter", f"{JITTER_PERCENT:g} %", jittered))
    found.append(Point("arrivals", "staggered", staggered, extreme=True))
    return found


def jittered(scenario: Scenario) -> Scenario:
    """Compute times vary."""
    return _changed(scenario, job=[{"jitter_percent": JITTER_PERCENT}] * len(scenario.job))


def staggered(scenario: Scenario) -> Scenario:
    """The second job arrives and leaves, later ones arrive, the first is there throughout."""
    first = scenario.job[0]
    length_ms = scenario.iterations * (first.compute_ms + first.comm_ms)
    changes: list[dict[str, Any]] = [{}]
    for index in range(1, len(scenario.job)):
        changes.append({"start_ms": round(length_ms * ARRIVAL_FRACTION * index, 1)})
        if index == 1:
            changes[-1]["stop_after_ms"] = round(length_ms * STAY_FRACTION, 1)
    return _changed(scenario, job=changes)


def buffer_packets(spec: FabricSpec, rate_mbit: float, mtu: int) -> int:
    """Packets of a queue that is as long in time as `spec`'s."""
    seconds = spec.buffer_packets * packet_bytes(spec) * 8 / (spec.rate_mbit * 1e6)
    other = msgspec.structs.replace(spec, mtu=mtu)
    return max(MIN_BUFFER_PACKETS, round(seconds * rate_mbit * 1e6 / 8 / packet_bytes(other)))


def _at_rate(rate_mbit: float) -> Callable[[Scenario], Scenario]:
    def apply(scenario: Scenario) -> Scenario:
        spec = scenario.fabric
        mtu = JUMBO_MTU if rate_mbit >= JUMBO_RATE_MBIT else spec.mtu
        return _changed(
            scenario,
            fabric={
                "rate_mbit": rate_mbit,
                "mtu": mtu,
                "buffer_packets": buffer_packets(spec, rate_mbit, mtu),
            },
        )

    return apply


def _with_buffer(times: float) -> Callable[[Scenario], Scenario]:
    def apply(scenario: Scenario) -> Scenario:
        packets = max(MIN_BUFFER_PACKETS, round(times * scenario.fabric.buffer_packets))
        return _changed(scenario, fabric={"buffer_packets": packets})

    return apply


def _at_rtt(rtt_us: int) -> Callable[[Scenario], Scenario]:
    return lambda scenario: _changed(scenario, fabric={"base_rtt_us": rtt_us})


def _changed(
    scenario: Scenario,
    fabric: dict[str, Any] | None = None,
    job: list[dict[str, Any]] | None = None,
) -> Scenario:
    """The scenario with other values, under the rules of scenario files."""
    document = without_none(msgspec.to_builtins(scenario))
    document["fabric"].update(fabric or {})
    for table, change in zip(document["job"], job or [], strict=False):
        table.update(change)
    return from_document(document, "sweep")
