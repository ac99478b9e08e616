"""`hostcc run --flops --mark`: what the owner declares, and marks without touching the script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.cli.run import mark_steps, parse_flops
from hostcc.errors import InputError
from hostcc.limits import FLOP_MAX

pytestmark = pytest.mark.unit


@given(st.floats(1, FLOP_MAX))
def test_numbers_of_any_size(value: float) -> None:
    assert parse_flops(repr(value)) == value


def test_nothing_was_declared() -> None:
    assert parse_flops(None) is None


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "1e40", "many", "1e12 FLOP"])
def test_what_is_no_number_of_flop(text: str) -> None:
    with pytest.raises(InputError, match="--flops: expected a number from 1 to"):
        parse_flops(text)


@pytest.mark.parametrize("before", [None, "/srv/lib"])
def test_python_below_finds_the_marks_first(before: str | None) -> None:
    environ = {} if before is None else {"PYTHONPATH": before}
    mark_steps(environ)
    first, *rest = environ["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "sitecustomize.py").exists()
    assert rest == ([] if before is None else [before])
    assert environ["HOSTCC_MARK"] == "1"


def test_a_script_that_has_no_torch_runs_as_ever(tmp_path: Path) -> None:
    environ = dict(os.environ)
    mark_steps(environ)
    script = tmp_path / "train.py"
    script.write_text("import sys; print('ran', 'torch' in sys.modules)")
    done = subprocess.run(
        [sys.executable, script], env=environ, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("ran False\n", "")
