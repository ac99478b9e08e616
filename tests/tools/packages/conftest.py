"""Packages, built once for all of their tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.packages import wheel


@pytest.fixture(scope="session")
def built_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel.build(tmp_path_factory.mktemp("dist"))
