"""Benchmarks may share a folder: none replaces the cases of another one."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks import meter_churn, registry, soak_samples
from benchmarks.cases import CaseStore, Identity
from benchmarks.context import Context
from hostcc.errors import InputError

pytestmark = pytest.mark.unit


def test_each_case_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, dict[str, str]] = {}

    def load(_: object, file: str, identity: Identity) -> None:
        asked.setdefault(file, {})[identity.definition] = name

    monkeypatch.setattr(CaseStore, "load", load)
    for name in registry.BENCHMARKS.keys() - registry.KEEP_NOTHING:
        benchmark, parser = registry.load(name), argparse.ArgumentParser()
        benchmark.add_options(parser)
        try:
            benchmark.run(parser.parse_args([]), Context(1, tmp_path, report_only=True))
        except InputError as error:
            assert "expected finished cases" in str(error)
    assert len(asked) > 200
    assert [cases for cases in asked.values() if len(cases) > 1] == []
    assert meter_churn.FILE != soak_samples.FILE
