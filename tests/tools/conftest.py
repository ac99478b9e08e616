"""A pair of namespaces, for the scripts to trace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tools.tracer import Pair


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()
