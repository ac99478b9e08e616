"""Points of the sweep."""

from __future__ import annotations

import pytest

from benchmarks import sweep
from hostcc.lab import scenario
from hostcc.lab.scenario_hosts import packet_bytes

TWO = scenario.load(scenario.find("two-jobs"))


def by_key() -> dict[str, sweep.Point]:
    return {point.key: point for point in sweep.points(TWO)}


def test_one_factor_at_a_time() -> None:
    points = by_key()
    assert next(iter(points)) == "none-default"
    assert points["none-default"].apply(TWO) == TWO
    assert points["buffer-8x"].apply(TWO).fabric.buffer_packets == 8 * TWO.fabric.buffer_packets
    assert points["buffer-0.5x"].apply(TWO).fabric.buffer_packets == TWO.fabric.buffer_packets / 2
    assert points["rtt-10ms"].apply(TWO).fabric.base_rtt_us == 10_000
    assert {job.jitter_percent for job in points["jitter-5%"].apply(TWO).job} == {5.0}
    assert len(points) == 1 + 3 + 3 + 2 + 1 + 1


@pytest.mark.parametrize("rate", [100, 500, 1000])
def test_the_queue_keeps_its_length_in_time(rate: int) -> None:
    changed = by_key()[f"rate-{rate}Mbit"].apply(TWO).fabric

    def seconds(spec: scenario.FabricSpec) -> float:
        return spec.buffer_packets * packet_bytes(spec) * 8 / (spec.rate_mbit * 1e6)

    assert changed.rate_mbit == rate
    assert seconds(changed) == pytest.approx(seconds(TWO.fabric), rel=0.03)


def test_jobs_arrive_and_leave() -> None:
    first, second = by_key()["arrivals-staggered"].apply(TWO).job
    assert (first.start_ms, first.stop_after_ms) == (0, 0)
    length_ms = TWO.iterations * 240
    assert second.start_ms == pytest.approx(0.2 * length_ms)
    assert second.start_ms + second.stop_after_ms < length_ms
    three = scenario.load(scenario.find("three-jobs"))
    assert sweep.staggered(three).job[2].start_ms > sweep.staggered(three).job[1].start_ms
    assert sweep.staggered(three).job[2].stop_after_ms == 0
