"""Programs whose result may not depend on the order of sets and dictionaries."""

from __future__ import annotations

import os
import subprocess
import sys

SEEDS = ("0", "1", "777")


def output(program: str) -> bytes:
    """Run a program in processes with different hash seeds; return what all of them print.

    The seed is its first argument, too.
    """
    results = {
        subprocess.run(
            [sys.executable, "-c", program, seed],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in SEEDS
    }
    assert len(results) == 1
    return results.pop()
