"""Files of code stay small enough to be read at once."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

TOP = Path(__file__).parent.parent
MOST_LINES = 500


def test_no_file_is_long() -> None:
    lines = {
        str(path.relative_to(TOP)): path.read_bytes().count(b"\n")
        for folder in ("hostcc", "benchmarks", "tools", "tests")
        for path in (TOP / folder).rglob("*.*")
        if path.suffix in (".py", ".c", ".h")
    }
    assert len(lines) > 1000
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
