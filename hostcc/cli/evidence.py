"""`hostcc evidence NAME`: the door to the published figures, which come with the source and not
with the package (docs/evidence.md).
"""

from __future__ import annotations

import argparse

from hostcc.cli.bench import register_measurements
from hostcc.cli.common import Subparsers


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add `evidence` to the command line, with all studies where the source is."""
    register_measurements(
        subparsers,
        "evidence",
        "published figures beside those found here",
        "evidence/command.py",
    )
