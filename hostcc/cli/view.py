"""`hostcc view`: the agent's view of the cluster, as `hostcc plan VIEW` reads it."""

from __future__ import annotations

import argparse
import base64
import binascii
import zlib
from pathlib import Path

from hostcc.answers.view import View
from hostcc.cli.common import Subparsers, add_client_options, add_parser, decoded
from hostcc.cli.viewfile import MAX_BYTES
from hostcc.client import ask
from hostcc.errors import Exit, HostccError, unwritten
from hostcc.foreign import in_json, say

EPILOG = """\
The view that this host holds: the next plan is made of it, if it is not in force already.
`hostcc plan FILE` makes the same plan of it, with the options of the agent's [plan].
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "view", "the cluster as the agent sees it, for hostcc plan")
    parser.epilog = EPILOG
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write it there, not to the output"
    )
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print or write it: it is JSON either way."""
    answer, document = fetch(args.socket)
    text = in_json(document.decode())
    if args.out is None:
        say(text, flush=True)
        return Exit.OK
    try:
        args.out.write_text(f"{text}\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise unwritten(args.out, error) from None
    say(f"view {answer.digest} written to {args.out}")
    return Exit.OK


def fetch(socket: Path) -> tuple[View, bytes]:
    """Return what the agent answers, and the document in it.  Raises HostccError."""
    answer = decoded(socket, ask(socket, "view"), View)
    unpacker = zlib.decompressobj()
    try:
        document = unpacker.decompress(base64.b64decode(answer.document, validate=True), MAX_BYTES)
        document.decode()
    except (binascii.Error, zlib.error, ValueError) as error:
        raise HostccError(f"the agent at {socket} sent no view: {error}") from None
    if not unpacker.eof:
        raise HostccError(f"the view of the agent at {socket} has more than {MAX_BYTES} bytes")
    return answer, document
