"""The benchmark of `hostcc compare`: what it starts ends in order."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from benchmarks import compare_modes

pytestmark = pytest.mark.unit

LAB = """
import pathlib, sys, time
here = pathlib.Path(sys.argv[0]).parent
try:
    (here / "made").touch()
    time.sleep(60)
finally:
    time.sleep(1)
    (here / "made").unlink()
"""


def test_an_interrupted_lab_removes_what_it_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, lab = tmp_path / "made", tmp_path / "lab.py"
    lab.write_text(LAB)
    monkeypatch.setattr(compare_modes, "HOSTCC", (sys.executable, str(lab)))

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    def interrupt() -> None:
        while not made.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(SystemExit):
            compare_modes.factor(tmp_path, 1)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not made.exists()
