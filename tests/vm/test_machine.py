"""Who is given up on, without a machine: what says nothing, however fast or slow the rest is."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.vm.machine import read_on, reported

AT_ONCE = (0.0, 0.0)
"""Silence is noticed as soon as there is nothing to read."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def never() -> None:
    raise AssertionError("it went on")


def test_who_says_something_is_left_alone(pipe: tuple[int, int]) -> None:
    output, guest = pipe
    for word in (b"one", b"two", b"three"):
        os.write(guest, word)
        assert read_on(output, never, never, time.monotonic, AT_ONCE) == word


def test_who_is_silent_is_asked_where_it_is(pipe: tuple[int, int]) -> None:
    output, guest = pipe

    def answer() -> None:
        os.write(guest, b"in a loop")

    assert read_on(output, answer, never, time.monotonic, AT_ONCE) == b"in a loop"


def test_who_does_not_answer_is_killed() -> None:
    output, guest = os.pipe()
    asked: list[str] = []

    def kill() -> None:
        assert asked == ["where"]
        os.close(guest)

    assert read_on(output, lambda: asked.append("where"), kill, time.monotonic, AT_ONCE) == b""
    os.close(output)


def test_who_has_had_no_processor_is_waited_for(pipe: tuple[int, int]) -> None:
    output, guest = pipe
    looks: list[float] = []

    def clock() -> float:
        looks.append(0.0)
        if len(looks) == 4:
            os.write(guest, b"late")
        return 0.0 if len(looks) < 1000 else 1.0

    assert read_on(output, never, never, clock, (0.5, 0.5)) == b"late"


def test_a_report_is_taken_when_its_line_is_whole() -> None:
    said = b'packets: 512\nREPORT {"a": 1}\nmore'
    assert reported(said) == {"a": 1}
    assert reported(said[:-5]) is None
