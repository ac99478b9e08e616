"""Pages for people: short sentences, headings that name something, a short README."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

TOP = Path(__file__).parent.parent
MOST_WORDS = 40
PAGES = sorted([*TOP.glob("*.md"), *TOP.glob("docs/**/*.md"), *TOP.glob("tests/**/*.md")])
ITEM = re.compile(r"\n(?=\s*(?:[-*]|\d+\.) )")
TARGET = re.compile(r"\]\([^)]*\)")
END = re.compile(r"(?<=[.!?])\s+|(?<=[:;])\s+(?=[A-Z`*\[(\d])")
WORD = re.compile(r"\S*[A-Za-z0-9]\S*")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
QUESTION = re.compile(r"(?:What|Who|Whose|Which|When|Where|Why|How)\b")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pieces(page: str) -> Iterator[str]:
    """Paragraphs, items of lists and cells of tables; code is none."""
    for block in re.split(r"\n\s*\n", FENCE.sub("", page)):
        if all(line.startswith("    ") for line in block.splitlines()):
            continue
        if block.lstrip().startswith("|"):
            yield from (cell for row in block.splitlines() for cell in row.split("|"))
        else:
            yield from ITEM.split(block)


def long_sentences(page: str) -> list[str]:
    found = []
    for piece in pieces(page):
        text = TARGET.sub("]", " ".join(piece.split()))
        found += [one for one in END.split(text) if len(WORD.findall(one)) > MOST_WORDS]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_no_sentence_is_long(page: Path) -> None:
    assert long_sentences(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_headings_are_no_questions(page: Path) -> None:
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    assert [one for one in headings if QUESTION.match(one)] == []


def test_the_readme_is_short() -> None:
    assert len((TOP / "README.md").read_text().splitlines()) <= 100


def test_every_page_is_read() -> None:
    assert {"README.md", "CHANGELOG.md", "schedule.md"} <= {page.name for page in PAGES}
    assert len(PAGES) > 35


def test_long_ones_would_be_found() -> None:
    words = " ".join(["word"] * 41)
    assert long_sentences(f"Short one. {words.capitalize()}. Another.") != []
    assert long_sentences(f"- item\n- {words}") != []
    assert long_sentences(f"| cell | {words} |") != []
    assert long_sentences(f"```sh\n{words}\n```") == []
    assert long_sentences(f"{words[:150]}. {words[:50]}") == []
