"""The exact schedules that implementations are held against (rational arithmetic)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "golden"


def cases(name: str) -> list[Any]:
    """pytest parameters: the cases of NAME.json."""
    found = json.loads((FOLDER / f"{name}.json").read_text())["cases"]
    return [pytest.param(case, id=case["name"]) for case in found]
