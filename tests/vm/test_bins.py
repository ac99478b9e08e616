"""Two jobs on one port of Soft-RoCE: profiles by the shim's bins."""

from __future__ import annotations

import base64
import json
import sys
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hostcc.daemon.profiling.tracks import Track
from hostcc.measure.measured_profile import Link, assemble
from hostcc.measure.series import ByteSeries
from hostcc.measure.work import Activity
from hostcc.system.cc import build
from hostcc.verbs.build import SHIM
from hostcc.verbs.queue_pair_bins import BIN_NS
from tests.vm.test_oldest_kernel import finished
from tests.vm.test_shim import pytestmark

__all__ = ["pytestmark"]
BATCH = 5000
"""Bins that the agent analyses at once."""
READING_S = 0.002
Floats = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    build(SHIM)
    output = finished([sys.executable, "-m", "tests.vm.bins_guest"])
    found: dict[str, Any] = json.loads(output.partition("REPORT ")[2].splitlines()[0])
    return found


def test_two_jobs_on_one_port_are_told_apart(report: dict[str, Any]) -> None:
    """Period, bytes, t and overlap are within 5 % of what each saw itself, the communication time
    within a quarter: completions come late where the emulator waits for a processor."""
    for name in ("fast", "slow"):
        job = report[name]
        begin, computed, sent = np.array(job["seen"]).T
        tx = np.frombuffer(zlib.decompress(base64.b64decode(job["tx"])), "<i8")
        track = Track(name)
        for first in range(0, len(tx), BATCH):
            part = tx[first : first + BATCH]
            at_ns = job["start_ns"] + first * BIN_NS
            track.take(ByteSeries(BIN_NS, at_ns, part, np.zeros_like(part)))
            track.analyse(track.collect())
        of, found = track.pattern()
        busy = activity(np.concatenate(([begin[0] - 1.0], sent[:-1])), computed)
        ((link, rate),) = [(one, report["rates"][one]) for one in job["links"]]
        got = assemble(name, of, found, links=[Link(link, rate)], activity=busy)
        # Both send at once now and then, and take longer; the usual iteration is what counts.
        known = (begin > of.start_ns / 1e9) & (begin < of.end_ns / 1e9)
        lasted = (sent - begin)[known]
        overlapped = (computed - begin)[known].sum() / lasted.sum()
        assert got.period_s == pytest.approx(np.median(np.diff(begin[known])), rel=0.05), name
        assert got.tx_bytes == pytest.approx(job["bytes"], rel=0.05), name
        assert got.link_time_s == pytest.approx(job["bytes"] * 8 / rate, rel=0.05), name
        assert got.communication_s == pytest.approx(np.median(lasted), rel=0.25), name
        assert got.overlap.ratio == pytest.approx(overlapped, abs=0.05), name
        assert job["to"] == ["198.18.2.1"]
        assert link == "rxa/1"


def activity(begin: Floats, end: Floats) -> Activity:
    """Readings that are close enough for short iterations, of a job that computes from each `begin`
    to its `end`, seconds."""
    edges = np.arange(begin[0], end[-1], READING_S)
    computed = np.interp(edges, np.stack([begin, end], 1).ravel(), _sums(begin, end))
    return Activity(edges[:-1], edges[1:], np.diff(computed) / READING_S)


def _sums(begin: Floats, end: Floats) -> Floats:
    """Seconds computed until each begin and end, in order."""
    after = np.cumsum(end - begin)
    return np.stack([np.concatenate(([0.0], after[:-1])), after], 1).ravel()
