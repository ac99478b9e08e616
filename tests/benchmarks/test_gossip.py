"""A small cluster through the benchmark."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import gossip, record
from benchmarks.context import Context

pytestmark = pytest.mark.unit


def test_twenty_hosts() -> None:
    args = argparse.Namespace(hosts=(20,), loss=0.1, seeds=(3, 4))
    found = gossip.run(args, Context(1, None))
    (row,) = found.rows
    assert row["hosts"] == 20
    assert 0 < float(str(row["p50"])) <= float(str(row["p99"])) < 20
    assert found.met
    assert record.decode(record.encode(found)).benchmark == "gossip"


def test_what_never_arrives_meets_no_goal() -> None:
    one = gossip.measure(12, 0.0, 1)
    one.rounds[0] = None
    assert [goal.met for goal in gossip.verdicts(12, 0.0, [one])] == [False, True]


def test_quantiles() -> None:
    assert gossip.quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert gossip.quantile([float(v) for v in range(1, 101)], 0.99) == 99.0
