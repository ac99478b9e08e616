"""`hostcc COMMAND ...`: finds the command, imports only that one, runs it.

Each command is a module of this package with `register(subparsers)`, which adds its
parser and sets `func(args) -> exit status`.  Errors that a person can act on
(HostccError) end in one line on standard error and their exit status.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import importlib
import io
import json
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from hostcc.cli.parser import Parser, UsageError
from hostcc.errors import UNWRITABLE, Exit, HostccError, one_line
from hostcc.foreign import in_json, say

COMMANDS = {
    "agent": "the daemon",
    "run": "run a command as part of a job",
    "environment": "the variables of a job that something else starts",
    "job": "give a job that runs another weight, or other figures",
    "status": "what the agent is doing, and how each job fares",
    "top": "the jobs live: what they send, how they fare",
    "compare": "measure what each way of sharing brings here",
    "jobs": "the jobs on this host and what they were given",
    "profile": "what was measured of a job",
    "flows": "the jobs' TCP connections",
    "unfair": "choose how jobs share: off, mltcp or static weights",
    "shifts": "let jobs that share a link send one after the other, or not",
    "verify": "is every change still in force?",
    "rollback": "undo every change",
    "changes": "what was changed on this host, and why",
    "doctor": "what this host can do, what is missing and how to get it",
    "advise": "what would help on this host; changes nothing",
    "report": "jobs, links, plan and the last hour as one page",
    "bugreport": "all that helps to find a fault, in one archive",
    "lab": "jobs on network namespaces of this machine",
    "probe": "the paths to a host and the source ports that choose them",
    "plan": "paths, priorities and time-shifts of a cluster's jobs",
    "links": "the links that jobs share by the plan",
    "view": "the cluster as the agent sees it, for hostcc plan",
    "rank": "placements by how well their jobs' bursts fit together",
    "sim": "traces of training clusters: describe, generate",
    "pcie": "the PCIe tree, and which jobs share its links",
    "peers": "the hosts that this one gossips with",
    "cluster": "files for a set of hosts that gossip",
    "keys": "this host's keys for gossip, and who may take part",
    "bench": "measurements behind the claims",
    "evidence": "published figures beside those found here",
}

ERROR = "hostcc.error/1"
EPILOG = """\
exit status: 0 it worked; 1 it failed, there is no such job, or verify or doctor
found something; 2 wrong usage or input; 3 no agent answers; 4 undone, but the
journal could not be told; 78 the agent's configuration is wrong.  `run` returns
its command's status.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), None)
    _open_standard_streams()
    try:
        try:
            args = build_parser(chosen).parse_args(words)
            status: int = args.func(args)
        finally:
            sys.stdout.flush()  # also after --help, which ends by SystemExit
    except HostccError as error:
        if isinstance(error, UsageError):
            _say(error.usage.rstrip())
        _complain(chosen if chosen in COMMANDS else None, str(error))
        if wants_json(chosen, words):
            _tell(error)
        return error.exit_status
    except BrokenPipeError:  # the reader (head, less) has seen enough
        _stop_writing()
        return Exit.OK
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        _stop_writing()
        _complain(chosen, f"cannot write the output: {error.strerror}")
        return Exit.FAILED
    except KeyboardInterrupt:
        return 130
    return status


def wants_json(chosen: str | None, words: Sequence[str]) -> bool:
    """Whether whoever called expects JSON; also where the words are no command line of ours."""
    own = words[: words.index("--")] if "--" in words else words
    return chosen != "run" and "--json" in own


def _tell(error: HostccError) -> None:
    """What went wrong, on standard output, where a document is expected."""
    about = {"code": error.code, "message": str(error), "exit_status": int(error.exit_status)}
    with contextlib.suppress(OSError):
        say(in_json(json.dumps({"schema": ERROR, "error": about}, ensure_ascii=False)), flush=True)


def _open_standard_streams() -> None:
    """What was closed becomes /dev/null, so that no file or socket gets its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
    # None where Python found it closed; not closed at the end, as Python's own are not.
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("hostcc", _escaped)
        sys.stdout.reconfigure(errors="hostcc")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What a locale without Unicode cannot show, in a form that is right in JSON, too."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _stop_writing() -> None:
    """Let what is still to be written go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(command: str | None, text: str) -> None:
    """One line on standard error, if that can be written."""
    _say(f"hostcc {command or ''}".rstrip() + f": {text}")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        say(text, file=sys.stderr, flush=True)


class _Version(argparse.Action):
    """Looks the version up only when somebody asks."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from hostcc.version import version

        say(f"hostcc {version()}")
        parser.exit()


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser of the whole command line; only the chosen command's own is complete."""
    parser = Parser(
        prog="hostcc",
        description="Host-side congestion and path agent for machine-learning clusters.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, words in COMMANDS.items():
        if name == chosen:
            _command(name).register(subparsers)
        else:
            subparsers.add_parser(name, help=words)
    return parser


def _command(name: str) -> ModuleType:
    """The command's module.  Raises HostccError when it, or what it needs, is not there."""
    try:
        module = importlib.import_module(f"hostcc.cli.{name}")
    except ImportError as error:
        raise HostccError(f"not available: {one_line(str(error))}") from None
    if not hasattr(module, "register"):
        raise HostccError("not available: this command has no register()")
    return module
