"""`hostcc bugreport`: everything that helps to find a fault, in one archive without secrets."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import platform
import re
import socket
import subprocess
import tarfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hostcc.cli.common import Subparsers, add_parser, add_socket_option, print_json
from hostcc.cli.progress_bar import progress_bar
from hostcc.cli.view import fetch
from hostcc.client import ask
from hostcc.errors import Exit, HostccError, InputError, one_line, unwritten
from hostcc.foreign import say
from hostcc.version import version

SCHEMA = "hostcc.bugreport/1"
ASKED: Mapping[str, Mapping[str, Any]] = {
    "status": {},
    "jobs": {"detail": True},
    "flows": {"limit": 2000},
    "peers": {},
    "plan": {},
    "links": {"every": True},
    "history": {},
    "changes": {"limit": 2000},
    "verify": {},
}
"""Requests whose answers are in the archive, with their fields."""
LIBRARIES = (
    "bcc", "cryptography", "matplotlib", "msgpack", "msgspec", "numpy", "nvidia-ml-py",
    "prometheus_client", "pyroute2", "pyzmq", "rich",
)  # fmt: skip
LOG_LINES = 2000
MAX_TEXT_BYTES = 4 * 1024 * 1024
"""Of a file of the configuration, and of the log: the end of it."""
COMMAND_S = 20.0
SECRET = re.compile(r"(?im)^(\s*\"?[\w-]*(?:secret|password|token|private)[\w-]*\"?\s*=\s*).*$")
EPILOG = """\
The archive has what the agent answers, its view of the cluster (`hostcc plan` makes the plan of
it), what doctor finds, the configuration, the agent's log and versions.  Keys are not in it, nor
values of settings whose names say that they are secret.  Names of jobs and hosts, addresses and
command lines of the journal are: look through it before you publish it.
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "bugreport", "all that helps to find a fault, in one archive")
    parser.epilog = EPILOG
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="write it there (default: hostcc-HOST-TIME.tar.gz)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON: file, contents, missing")
    add_socket_option(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Collect and write; what cannot be had is named, and the rest is there all the same."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())
    stem = f"hostcc-{host}-{time.strftime('%Y%m%d-%H%M%S')}"
    out = args.out or Path(f"{stem}.tar.gz")
    found: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    pieces = dict(_pieces(args.socket, found))
    with progress_bar() as tell:
        for at, (name, make) in enumerate(pieces.items()):
            tell(name, at, len(pieces))
            try:
                found[name] = make()
            except (HostccError, OSError, ValueError, subprocess.SubprocessError) as error:
                missing[name] = one_line(str(error))
    found["missing.json"] = _json(missing)
    write(out, found, stem)
    if args.json:
        print_json({"schema": SCHEMA, "file": str(out), "contents": sorted(found),
                    "missing": missing})  # fmt: skip
        return Exit.OK
    for why in dict.fromkeys(missing.values()):
        say(f"without {', '.join(name for name in missing if missing[name] == why)}: {why}")
    say(f"{out}: {len(found)} files, {out.stat().st_size / 1e3:.0f} kB; look through it before "
        "you publish it")  # fmt: skip
    return Exit.OK


def write(out: Path, files: Mapping[str, bytes], folder: str) -> None:
    """Write a new archive that only its owner may read; part of one is not left behind.

    Raises HostccError.
    """
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime = len(content), int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    try:
        fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(gzip.compress(raw.getvalue()))
        except OSError:
            out.unlink(missing_ok=True)
            raise
    except OSError as error:
        expected = "a file that does not exist yet and can be written"
        raise unwritten(out, error, expected) from None


def _pieces(path: Path, found: Mapping[str, bytes]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Name of each file, and what makes it; the later ones use what is `found` by then."""
    yield "versions.json", lambda: _json(_versions())
    for op, fields in ASKED.items():
        yield f"{op}.json", lambda op=op, fields=fields: _json(ask(path, op, **fields))  # type: ignore[misc]
    yield "view.json", lambda: fetch(path)[1]
    yield "doctor.json", lambda: _json(_doctor(path))
    yield "hostcc.toml", lambda: _configuration(found)
    yield "agent.log", _log


def _versions() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    libraries = {}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            libraries[name] = installed(name)
    uname = os.uname()
    return {
        "hostcc": version(),
        "python": platform.python_version(),
        "kernel": uname.release,
        "kernel_build": uname.version,
        "machine": uname.machine,
        "distribution": _distribution(),
        "processors": os.cpu_count(),
        "libraries": libraries,
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _doctor(path: Path) -> dict[str, Any]:
    from hostcc.cli import diagnosis

    return diagnosis.document(diagnosis.examine(path))


def _configuration(found: Mapping[str, bytes]) -> bytes:
    """The agent's file and its drop-ins, one after the other; without an agent the default ones."""
    from hostcc.cli.agent import SYSTEM_CONFIG
    from hostcc.config.load import files

    where: str | Path = SYSTEM_CONFIG
    if "status.json" in found:
        where = json.loads(found["status.json"])["agent"]["config"]
        if not where:
            raise InputError("the agent has none: it runs by the defaults")
    read = files(Path(where), must_exist=False)
    if not read:
        raise InputError(f"there is no {where}")
    return b"\n".join(f"# {file}\n".encode() + _settings(file) for file in read)


def _settings(path: Path) -> bytes:
    with path.open("rb") as file:
        text = file.read(MAX_TEXT_BYTES).decode()
    tomllib.loads(text)  # nothing else, wherever the answer points
    return SECRET.sub(r'\1"(left out)"', text).encode()


def _log() -> bytes:
    command = ["journalctl", "--unit=hostcc", f"--lines={LOG_LINES}", "--no-pager", "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=COMMAND_S, check=True)
    except FileNotFoundError:
        raise InputError("no journalctl here: add the agent's log yourself") from None
    if not done.stdout:
        raise InputError("the system's journal has nothing of the unit hostcc")
    return done.stdout[-MAX_TEXT_BYTES:]


def _json(document: object) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=True).encode() + b"\n"
