"""Tables on screens of any width, and in pipes; answers of agents of other versions."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from rich.console import Console

from hostcc.cli import common
from hostcc.cli.common import Column, console, emit, print_whole, table
from hostcc.errors import HostccError

pytestmark = pytest.mark.unit

COLUMNS: list[Column] = [
    ("Rank", "right"),
    ("Job", "left"),
    ("Start later by", "right"),
    ("Reason", "left"),
]
ROWS = [
    ("0", "llama", "-", "its flows share links with 1 other job; all of them find room at once"),
    ("1", "bert-large", "306 ms", "[bold] is no markup :warning: and no picture"),
]
CELLS = st.lists(st.text("ab[/]:x", min_size=1, max_size=9), max_size=5).map(" ".join)


def screen(width: int) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return console(out, width), out


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 120, 300])
def test_nothing_is_cut_whatever_the_width(width: int) -> None:
    made, out = screen(width)
    print_whole(made, table(COLUMNS, ROWS))
    text = out.getvalue()
    assert "…" not in text
    for word in " ".join(cell for row in ROWS for cell in row).split():
        assert word in text.split()
    assert "306 ms" in text  # a figure stays beside its unit
    assert "Start later by" in text


def test_it_fits_where_it_can() -> None:
    made, out = screen(60)
    print_whole(made, table(COLUMNS, ROWS), "[a line] beside it")
    assert max(map(len, out.getvalue().splitlines())) <= 60
    assert "[a line] beside it" in out.getvalue()


@given(
    st.lists(st.tuples(*[CELLS] * 4), max_size=4),
    st.integers(1, 120),
)
def test_any_cells_are_drawn_whole(rows: list[tuple[str, ...]], width: int) -> None:
    made, out = screen(width)
    print_whole(made, table(COLUMNS, rows))
    printed = set(out.getvalue().split())
    for word in " ".join(cell for row in rows for cell in row).split():
        assert word in printed


def test_a_pipe_gets_lines_without_colour_or_padding(capsys: pytest.CaptureFixture[str]) -> None:
    emit("time-shifts of [a]", table(COLUMNS, ROWS))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "time-shifts of [a]"
    assert len(lines) == 4
    assert lines[2].endswith("find room at once")
    assert all(line == line.rstrip() and "\x1b" not in line for line in lines)


class Figures(Struct):
    """An answer with one that was added later."""

    name: str
    jobs: int
    later: int | None = None


def test_what_a_newer_agent_says_beside_it_is_ignored_and_text_is_harmless() -> None:
    answer = {"name": "a\x1b[2J", "jobs": 3, "new": {"x": 1}}
    assert common.read(Path("/s"), answer, Figures) == Figures(r"a\x1b[2J", 3)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"name": "a"}, "the agent at /s does not say 'jobs', so it is not of this version: "),
        ({"name": 1, "jobs": 2}, "the agent at /s says something else: Expected `str`, got `int`"),
        ([], "the agent at /s says something else: Expected `object`, got `array`"),
    ],
)
def test_an_older_agent_may_lack_something(answer: object, expected: str) -> None:
    with pytest.raises(HostccError) as caught:
        common.read(Path("/s"), answer, Figures)
    assert str(caught.value).startswith(expected)
    assert str(caught.value).endswith("restart it")
