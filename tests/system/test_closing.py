"""A block with something to close leaves it closed, also by an exception."""

from __future__ import annotations

import pytest

from hostcc.system.closing import Closing

pytestmark = pytest.mark.unit


class Held(Closing):
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_closes_at_the_end_of_the_block() -> None:
    with Held() as held:
        assert held.closed == 0
    assert held.closed == 1


def test_closes_when_the_block_fails_and_hides_nothing() -> None:
    held = Held()
    with pytest.raises(KeyError), held:
        raise KeyError
    assert held.closed == 1
