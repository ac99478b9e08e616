"""Lines of evidence, and the document made of them."""

from __future__ import annotations

import pytest

from benchmarks.evidence.document import Evidence, Line, Study, answer, within

pytestmark = pytest.mark.unit


def test_within_is_relative_and_zero_is_equal() -> None:
    assert within("s", "f", 10.0, 10.9, tolerance=0.1).met
    assert not within("s", "f", 10.0, 11.1, tolerance=0.1).met
    assert within("s", "f", 0.0, 0.0, tolerance=0.0).bar == "equal"
    assert not within("s", "f", 0.0, 1.0, tolerance=0.0).met


def test_evidence_is_met_if_no_bar_is_missed() -> None:
    free = Line(setting="s", figure="f", published=None, here=2.0)
    missed = within("s", "f", 1.0, 2.0, tolerance=0.1)
    assert Evidence(lines=(free,)).met
    assert not Evidence(lines=(free, missed)).met
    study = Study("one", "paper", "about", lambda _: Evidence(lines=(free,)))
    document = answer([(study, study.run(None))], quick=False)  # type: ignore[arg-type]
    assert document["evidence"][0]["lines"][0]["difference"] is None
