"""How long tests wait for what must come."""

from __future__ import annotations

import pytest

from tests.patience import Patience, share, until


@pytest.mark.parametrize(("running", "part"), [(1, 1.0), (2, 1.0), (3, 2 / 3), (8, 0.25)])
def test_a_second_is_worth_what_a_process_gets_of_it(running: int, part: float) -> None:
    assert share(f"0.01 9.50 9.50 {running}/512 4711\n", processors=2) == part


def test_patience_ends() -> None:
    patience = Patience(0.01)
    while patience.lasts():
        pass
    assert not patience.lasts()


def test_what_comes_late_is_waited_for() -> None:
    calls = iter([False, False, True])
    until(lambda: next(calls), "the third")


def test_what_never_comes_is_named() -> None:
    with pytest.raises(AssertionError, match="in vain for 2 of them"):
        until(lambda: False, lambda: "2 of them", patience_s=0.02)
