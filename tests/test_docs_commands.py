"""Pages name commands and options that exist, and their shell blocks run where they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_blocks import PAGES, TOP, blocks, commands, shell, wrong

pytestmark = pytest.mark.unit

PLACES = {"", "runs", "admin", "both", "node1", "node2"}
TASKS = ("quickstart", "troubleshoot", "operate", "research", "concepts", "comparison")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_commands_and_options_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # of versions in which they may have had other names
    assert [(line, why) for line in commands(page) if (why := wrong(line))] == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("hostcc frobnicate", "no command frobnicate"),
        ("hostcc keys frob", "no command keys frob"),
        ("hostcc status --frob", "status has no --frob"),
        ("hostcc keys new --json", "keys new has no --json"),
        ("hostcc keys new --name x", ""),
        ("hostcc unfair off", ""),
        ("hostcc NAME --frob", ""),
    ],
)
def test_what_does_not_exist_is_found(line: str, why: str) -> None:
    assert wrong(line) == why


def test_pages_by_task_have_commands() -> None:
    assert sum(len(list(commands(page))) for page in PAGES) > 300
    for name in TASKS:
        assert (TOP / f"docs/{name}.md").exists()
    for name in ("quickstart", "troubleshoot", "operate", "research"):
        assert len(list(commands(TOP / f"docs/{name}.md"))) > 5


def test_blocks_say_where_they_run() -> None:
    places = {block.where for page in PAGES for block in blocks(page)}
    assert places <= PLACES
    assert {"runs", "admin", "node1"} <= places


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """An environment with `hostcc` in the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "hostcc"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m hostcc "$@"\n')
    script.chmod(0o755)
    own = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(TOP)}
    return {**os.environ, **own}


RUNNING = [page for page in PAGES if any(block.where == "runs" for block in blocks(page))]


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_blocks_run(page: Path, tmp_path: Path, tools: dict[str, str]) -> None:
    """Those of one page in one folder, one after the other."""
    folder = tmp_path / "work"
    folder.mkdir()
    for block in blocks(page):
        if block.where == "runs":
            done = subprocess.run(
                ["sh", "-c", shell(block)],
                cwd=folder,
                env=tools,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
