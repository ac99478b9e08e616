"""`hostcc bench NAME`: the door to the measurements, which come with the source and not with the
package (docs/benchmarks.md).
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import hostcc
from hostcc.cli.common import Subparsers, add_parser
from hostcc.errors import HostccError

SOURCE = Path(hostcc.__file__).parents[1]
WHERE = """\
the measurements come with the source, not with the installed package: get the source of this
version, run tools/setup in it, then .venv/bin/hostcc bench NAME
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add `bench` to the command line, with all measurements where the source is."""
    bench = add_parser(subparsers, "bench", "measurements behind the claims")
    if (SOURCE / "benchmarks" / "command.py").is_file():
        importlib.import_module("benchmarks.command").register(bench)
        return
    bench.epilog = WHERE
    bench.add_argument("words", nargs=argparse.REMAINDER, metavar="NAME ...")
    bench.set_defaults(func=_elsewhere)


def _elsewhere(_: argparse.Namespace) -> int:
    raise HostccError(" ".join(WHERE.split()))
