"""The scripts in tools/ explain themselves without doing anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

TOOLS = Path(__file__).parent.parent / "tools"


@pytest.mark.parametrize("name", ["setup", "demo", "test", "package"])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_shows_the_head_of_the_script(name: str, option: str) -> None:
    done = subprocess.run(
        [TOOLS / name, option], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"\n  tools/{name} " in done.stdout
    assert "set -eu" not in done.stdout


def test_setup_refuses_what_it_does_not_know() -> None:
    done = subprocess.run(
        [TOOLS / "setup", "--with-luck"], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 2
    assert "unknown argument --with-luck; expected --with-torch" in done.stderr
