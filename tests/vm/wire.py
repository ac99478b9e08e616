"""In the guest: where jobs send, by counting packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.vm.patience import until
from tests.vm.roce_fabric import Capture

Place = tuple[str, int, int]
"""Path, source port, class."""
ENOUGH = 100
"""Packets that show where jobs send."""


def sent(capture: Capture) -> Counter[Place]:
    """What the captured end has sent since the last call, in packets."""
    return Counter((p.path, p.port, p.traffic_class) for p in capture.take())


def ranked(found: Counter[Place]) -> list[list[Any]]:
    """[path, port, class, packets], the most frequent first."""
    return [[*place, count] for place, count in found.most_common(6)]


def running(capture: Capture, wanted: Callable[[set[Place]], bool], most: int) -> list[list[Any]]:
    """The first ENOUGH packets in a row, from now on, that are as wanted.

    The last ENOUGH when none of `most` packets were, or when no more came.
    """
    capture.take()
    total = 0
    batch: Counter[Place] = Counter()
    rows: list[list[Any]] = []

    def as_wanted() -> bool:
        nonlocal total, rows
        new = sent(capture)
        batch.update(new)
        total += new.total()
        if batch.total() < ENOUGH:
            return False
        rows, seen = ranked(batch), set(batch)
        batch.clear()
        return wanted(seen)

    try:
        until(as_wanted, lambda: total, "packets", most)
    except AssertionError as error:
        print(error, flush=True)
    return rows


def settled(capture: Capture, paths: set[str], jobs: int, most: int) -> list[list[Any]]:
    """The wire, [path, port, class], once so many jobs have a class each, on exactly these paths,
    and they stay there; as it was at the end when it came to nothing within `most` packets."""
    before: set[Place] = set()

    def good(seen: set[Place]) -> bool:
        nonlocal before
        before, last = seen, before
        classes = {row[2] for row in seen} - {0}  # 0: a job that was not told yet
        is_one_each = len(classes) == len(seen) == jobs
        return {row[0] for row in seen} == paths and is_one_each and seen == last

    return sorted(row[:3] for row in running(capture, good, most))
