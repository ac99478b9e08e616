"""The profile of a job."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hostcc.measure.measured_profile import Link, assemble
from hostcc.measure.period import detect
from hostcc.measure.series import part, series
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit

MADE = regular(100, 14, high=1000, share=0.4, start_ns=77)
"""40,000 bytes an iteration, half of them sent."""
FOUND = detect(MADE)


def test_the_slowest_link_decides() -> None:
    quarter = dataclasses.replace(MADE, tx=MADE.tx // 4, rx=MADE.rx // 2)
    found = assemble(
        "train",
        MADE,
        FOUND,
        links=[Link("eth0", 8e6), Link("eth1", 1e6, quarter), Link("eth2", None)],
        flop=3e9,
    )
    assert found.periodic
    assert found.period_s == pytest.approx(0.1, rel=0.001)
    assert found.tx_bytes == pytest.approx(20_000, rel=0.001)
    assert found.bytes_per_iteration == pytest.approx(40_000, rel=0.001)
    times = {link.name: link.time_s for link in found.links}
    assert times["eth0"] == pytest.approx(20_000 * 8 / 8e6, rel=0.001)
    assert times["eth1"] == pytest.approx(10_000 * 8 / 1e6, rel=0.001)
    assert times["eth2"] is None
    assert found.bottleneck == "eth1"
    assert found.link_time_s == times["eth1"]
    assert found.intensity == pytest.approx(3e9 / 0.08, rel=0.001)
    assert found.communication_s == pytest.approx(0.04, abs=0.002)
    assert found.communication_start_s == pytest.approx(0.06, abs=0.002)
    assert found.measured_ns == MADE.end_ns
    assert found.overlap.ratio is None
    assert found.fold is not None


@pytest.mark.parametrize("links", [[], [Link("eth0", None)], [Link("eth0", 0.0)]])
def test_without_a_speed_there_is_no_time(links: list[Link]) -> None:
    found = assemble("train", MADE, FOUND, links=links, flop=1e9)
    assert found.link_time_s is None
    assert found.intensity is None
    assert found.bottleneck is None


def test_without_work_there_is_no_intensity() -> None:
    found = assemble("train", MADE, FOUND, links=[Link("eth0", 1e6)])
    assert found.link_time_s
    assert found.intensity is None


def test_not_periodic_has_no_numbers() -> None:
    made = series(np.full(500, 9), None, MS)
    found = assemble("bulk", made, detect(made), links=[Link("eth0", 1e6)], flop=1.0)
    assert not found.periodic
    assert "constant" in found.reason
    assert found.confidence == 0.0
    assert found.period_s is found.bytes_per_iteration is found.link_time_s is None
    assert found.flop == 1.0


def test_other_bins_are_refused() -> None:
    with pytest.raises(ValueError, match="expected the bins of the job's series"):
        assemble("train", MADE, FOUND, links=[Link("eth0", 1e6, part(MADE, 5))])
