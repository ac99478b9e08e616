"""Ports to probe; the probing itself is tested where there is a fabric (tests/vm)."""

from __future__ import annotations

import itertools

import pytest

from hostcc.errors import InputError
from hostcc.verbs import roce_probe
from hostcc.verbs.ports import FIRST, LAST

pytestmark = pytest.mark.unit


def test_ports_are_distinct_and_spread() -> None:
    every = roce_probe.spread(LAST - FIRST + 1)
    assert sorted(every) == list(range(FIRST, LAST + 1))
    few = sorted(roce_probe.spread(64))
    gaps = [high - low for low, high in itertools.pairwise(few)]
    assert max(gaps) < 4 * (LAST - FIRST) / 64
    with pytest.raises(InputError):
        roce_probe.spread(0)


def test_ports_that_roce_cannot_have_are_refused() -> None:
    with pytest.raises(InputError, match="80"):
        roce_probe.routes("198.18.0.1", "198.18.0.2", [80])
