"""A host with an agent, and a pair of namespaces, for the scripts to trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real import RealHost
from tests.tools.tracer import Pair


@pytest.fixture
def host(tmp_path: Path, cgroup2: Path) -> Iterator[RealHost]:
    made = RealHost(tmp_path, cgroup2)
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()
