"""GPT beside BERT."""

from __future__ import annotations

import pytest

from benchmarks.evidence.studies import crux_contention
from tests.benchmarks.evidence.found import quick

pytestmark = pytest.mark.unit


def test_the_constants_are_those_that_fit() -> None:
    fitted = [one for one in quick("crux-7").lines if one.kind == "fitted"]
    assert len(fitted) == 4
    for one in fitted:
        assert one.here == pytest.approx(one.published, rel=0.02), one.figure


def test_all_lose_by_contention() -> None:
    found = crux_contention.contend(300.0)
    assert found.gpt.min() >= crux_contention.GPT_S - 1e-9
    assert found.bert.min() >= crux_contention.BERT_S - 1e-9
    assert found.gpt_throughput < found.utilisation < found.bert_throughput < 0
