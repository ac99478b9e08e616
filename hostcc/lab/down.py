"""Remove what labs have left behind."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from hostcc.lab import state
from hostcc.lab.errors import LabError

END_PATIENCE_S = 90.0


def down(running_too: bool = False, directory: Path = state.STATE_DIRECTORY) -> list[str]:
    """Remove every lab whose maker is dead, or all; returns the identities removed.

    Raises LabError when something could not be removed; the rest is removed all the same.
    """
    removed: list[str] = []
    problems: list[str] = []
    for found in state.recorded(directory):
        if found.alive and not running_too:
            continue
        try:
            _end(found)
            state.remove(found, directory)
            removed.append(found.id)
        except LabError as error:
            problems.append(f"{found.id}: {error}")
    if problems:
        raise LabError("; ".join(problems))
    return removed


def _end(lab: state.LabState) -> None:
    """Ask the process that runs a lab to end, and wait; it removes the lab itself."""
    deadline = time.monotonic() + END_PATIENCE_S
    if lab.alive:
        with suppress(ProcessLookupError):
            os.kill(lab.pid, signal.SIGTERM)
    while lab.alive:
        if time.monotonic() > deadline:
            raise LabError(f"process {lab.pid} does not end")
        time.sleep(0.05)
