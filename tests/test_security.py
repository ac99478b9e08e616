"""SECURITY.md: each promise names tests, and those are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
PAGE = (TOP / "SECURITY.md").read_text()
WHO = ("root", "The group `socket_group`", "Users", "Jobs", "Peers", "The network")
ROW = re.compile(r"^\| (?P<promise>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def promises() -> list[tuple[str, list[tuple[str, str]]]]:
    """What the page says, and path and name of each test of it."""
    rows = [(row["promise"], row["tests"]) for row in ROW.finditer(PAGE)]
    return [(promise, TEST.findall(tests)) for promise, tests in rows if promise != "promise"]


@cache
def names_in(path: Path) -> frozenset[str]:
    found = ast.parse(path.read_text()).body
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(one.name for one in found if isinstance(one, kinds))


def test_it_is_one_page_about_everybody() -> None:
    assert tuple(re.findall(r"^## (.*)$", PAGE, re.MULTILINE)) == WHO
    assert len(promises()) == len(re.findall(r"^\| (?!promise)\w", PAGE, re.MULTILINE))
    assert len(promises()) >= 5 * len(WHO)
    assert len(PAGE.splitlines()) < 100


@pytest.mark.parametrize(("promise", "tests"), promises(), ids=lambda one: str(one)[:40])
def test_each_promise_has_its_tests(promise: str, tests: list[tuple[str, str]]) -> None:
    assert tests, promise
    for path, name in tests:
        assert name in names_in(TOP / path), f"{promise}: {path}::{name}"


def test_no_name_of_a_test_is_overlooked() -> None:
    assert len(TEST.findall(PAGE)) == PAGE.count("::")
