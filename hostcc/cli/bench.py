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
version, run tools/setup in it, then .venv/bin/hostcc {command} NAME
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add `bench` to the command line, with all measurements where the source is."""
    register_measurements(subparsers, "bench", "measurements behind the claims", "command.py")


def register_measurements(
    subparsers: Subparsers[argparse.ArgumentParser], command: str, about: str, file: str
) -> None:
    """Add a command whose `file` below `benchmarks/` registers it, where the source is."""
    parser = add_parser(subparsers, command, about)
    if (SOURCE / "benchmarks" / file).is_file():
        module = file.removesuffix(".py").replace("/", ".")
        importlib.import_module("benchmarks." + module).register(parser)
        return
    where = WHERE.format(command=command)
    parser.epilog = where
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="NAME ...")

    def elsewhere(_: argparse.Namespace) -> int:
        raise HostccError(" ".join(where.split()))

    parser.set_defaults(func=elsewhere)
