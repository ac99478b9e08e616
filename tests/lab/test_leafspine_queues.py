"""Queues by DSCP: guaranteed shares, classes and filters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.lab.leafspine_plan import LeafSpineSpec, Queueing
from hostcc.lab.leafspine_queues import commands, guarantees, rate_commands

pytestmark = pytest.mark.unit


def spec(queues: Queueing, levels: tuple[int, ...] = (40, 32)) -> LeafSpineSpec:
    return LeafSpineSpec(queues=queues, levels=levels)


def test_a_fifo_is_one_class_without_filters() -> None:
    lines = commands("spine1", spec(Queueing.FIFO), 100)
    assert not [line for line in lines if "filter" in line]
    assert len([line for line in lines if "bfifo" in line]) == 1


def test_strict_queues_borrow_in_order_and_nothing_starves() -> None:
    lines = commands("spine1", spec(Queueing.STRICT), 100)
    prios = [
        line.split("prio ")[1].split()[0] for line in lines if "class" in line and " prio " in line
    ]
    assert prios == ["0", "1", "2"]
    assert "match ip dsfield 0xa0 0xfc flowid 1:1" in "\n".join(lines)
    assert "match ip dsfield 0xc0 0xfc flowid 1:1" in "\n".join(lines)
    assert lines[0].endswith("htb default 3")


@given(
    st.sampled_from(Queueing),
    st.lists(st.integers(1, 47), max_size=12, unique=True),
    st.floats(1, 10_000),
)
def test_guarantees_never_exceed_the_rate(queues: Queueing, levels: list[int], rate: float) -> None:
    given_rates = guarantees(spec(queues, tuple(levels)), rate)
    assert all(one > 0 for one in given_rates)
    assert sum(given_rates) <= rate * (1 + 1e-9)


def test_another_rate_changes_every_class() -> None:
    lines = rate_commands("spine1", spec(Queueing.SHARES), 20)
    assert all(line.startswith("class change dev spine1") for line in lines)
    assert all("ceil 20000000bit" in line for line in lines)
    assert len(lines) == 4
