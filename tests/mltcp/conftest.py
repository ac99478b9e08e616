"""The congestion controls compiled for this process, and test objects built around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.bpf.build import build_directory
from tests.mltcp.native_build import Native

PROGS = Path(__file__).parent / "progs"


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Native:
    return Native(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="session")
def progs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the compiled test objects, which include the product's sources."""
    target = tmp_path_factory.mktemp("mltcp-progs")
    build_directory(PROGS, target, werror=True)
    return target
