"""Finished cases on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cases import CaseStore, Identity, identity_of
from benchmarks.cost import Cost, Hook

SAME = Identity("what", "what and how")
CASE = Cost(10, {"acked": Hook(3, 400)})


def test_what_was_saved_is_found_again(tmp_path: Path) -> None:
    CaseStore(tmp_path, Cost).save("group/one", SAME, CASE)
    store = CaseStore(tmp_path, Cost)
    assert store.load("group/one", SAME) == CASE
    assert store.load("group/two", SAME) is None
    assert store.load("group/one", Identity("other", "other")) is None
    assert [path.name for path in (tmp_path / "group").iterdir()] == ["one.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "1",
        '{"digest": "what and how"}',
        '{"digest": "what and how", "result": {"acks": "x"}}',
    ],
)
def test_a_damaged_case_is_measured_again(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.json").write_text(text)
    assert CaseStore(tmp_path, Cost).load("one", SAME) is None


def test_fresh_passes_over_old_cases_but_not_its_own(tmp_path: Path) -> None:
    CaseStore(tmp_path, Cost).save("one", SAME, CASE)
    store = CaseStore(tmp_path, Cost, fresh=True)
    assert store.load("one", SAME) is None
    store.save("one", SAME, CASE)
    assert store.load("one", SAME) == CASE


def test_cases_of_other_programs_are_for_reports_only(tmp_path: Path) -> None:
    CaseStore(tmp_path, Cost).save("one", SAME, CASE)
    today = Identity("what", "what and how else")
    assert CaseStore(tmp_path, Cost).load("one", today) is None
    store = CaseStore(tmp_path, Cost, any_programs=True)
    assert store.load("one", today) == CASE
    assert store.load("one", SAME) == CASE
    assert store.load("one", Identity("else", "else")) is None
    assert store.outdated == ["one"]


def test_without_a_directory_nothing_is_kept() -> None:
    store = CaseStore(None, Cost)
    store.save("one", SAME, CASE)
    assert store.load("one", SAME) is None


def test_digest_depends_on_the_definition_and_on_nothing_else() -> None:
    assert identity_of({"a": 1, "b": 2}, programs=False) == identity_of(
        {"b": 2, "a": 1}, programs=False
    )
    assert identity_of({"a": 1}, programs=False) != identity_of({"a": 2}, programs=False)
