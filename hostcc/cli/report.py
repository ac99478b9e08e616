"""`hostcc report`: jobs, links, paths, plan and the last hour, as one HTML file to send around."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from hostcc.cli.common import Subparsers, add_parser, add_socket_option, print_json
from hostcc.errors import Exit, InputError, unwritten
from hostcc.foreign import say

SCHEMA = "hostcc.report/1"
EPILOG = """\
The file needs nothing beside it, runs no scripts and loads nothing.  Names of jobs and hosts and
addresses are in it: look through it before you publish it.
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "report", "jobs, links, plan and the last hour as one page")
    parser.epilog = EPILOG
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="write it there (default: %(default)s)",
    )
    parser.add_argument(
        "--from",
        dest="archive",
        type=Path,
        metavar="ARCHIVE",
        help="of an archive that hostcc bugreport wrote, not of the agent",
    )
    parser.add_argument("--json", action="store_true", help="print JSON: file, bytes, missing")
    add_socket_option(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Collect and write."""
    from hostcc.cli import report_evidence, report_page

    if args.archive is not None:
        found = report_evidence.of_archive(args.archive)
    else:
        found = report_evidence.of_agent(args.socket)
    try:
        text = report_page.page(found).encode()
    except (ArithmeticError, OSError, ValueError) as error:
        if args.archive is None:
            raise
        words = f"{args.archive}: expected figures of an agent, got: {error}"
        raise InputError(words) from None  # those of an archive may be anything
    write(args.out, text)
    if args.json:
        print_json({"schema": SCHEMA, "file": str(args.out), "bytes": len(text),
                    "missing": dict(found.missing)})  # fmt: skip
        return Exit.OK
    for why in dict.fromkeys(found.missing.values()):
        names = ", ".join(name for name in found.missing if found.missing[name] == why)
        say(f"without {names}: {why}")
    say(f"{args.out}: {len(text) / 1e3:.0f} kB; open it in a browser")
    return Exit.OK


def write(out: Path, text: bytes) -> None:
    """Write it beside its place, then put it there; what is no file, as /dev/stdout, stays what it
    is.  Raises HostccError."""
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        if out.is_symlink() or (out.exists() and not out.is_file() and not out.is_dir()):
            out.write_bytes(text)
            return
        beside.write_bytes(text)
        beside.replace(out)
    except (OSError, ValueError) as error:
        beside.unlink(missing_ok=True)
        raise unwritten(out, error) from None
