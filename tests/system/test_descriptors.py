"""A process that has no descriptor left gets more."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest

from hostcc.system.descriptors import allow_all, allow_more


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_up_to_the_hard_limit(limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    real, hard = resource.setrlimit, limits[1]

    def unprivileged(what: int, wanted: tuple[int, int]) -> None:
        if wanted[1] > hard:
            raise ValueError("not allowed to raise maximum limit")
        real(what, wanted)

    monkeypatch.setattr(resource, "setrlimit", unprivileged)
    real(resource.RLIMIT_NOFILE, (hard - 10, hard))
    allow_more(5)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard - 5, hard)
    allow_more()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_one_more_can_be_opened(limits: tuple[int, int]) -> None:
    lowest = os.dup(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    with pytest.raises(OSError, match="Too many open files"):
        os.dup(0)
    allow_more()
    os.close(os.dup(0))
    os.close(lowest)


def test_the_soft_limit_goes_up_to_the_hard_one(limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1] // 2, limits[1]))
    allow_all()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (limits[1], limits[1])
