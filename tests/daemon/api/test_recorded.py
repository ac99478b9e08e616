"""What agents answer, and what they export, is to the byte what was recorded: others parse it."""

from __future__ import annotations

import logging

import pytest

from hostcc.daemon import preflight
from tests.daemon.api import recorded

pytestmark = pytest.mark.unit


def test_answers_have_the_same_keys_values_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger("hostcc").addHandler(logging.NullHandler())
    monkeypatch.setattr(preflight, "missing", lambda root: [])
    now = recorded.written(recorded.answers()).splitlines()
    assert now == recorded.ANSWERS.read_text().splitlines()


def test_metrics_have_the_same_names_types_words_and_labels() -> None:
    assert recorded.metrics() == recorded.METRICS.read_text()
