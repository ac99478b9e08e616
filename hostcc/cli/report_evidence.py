"""What a report is made of: the answers of one agent, or those in an archive of `bugreport`."""

from __future__ import annotations

import gzip
import json
import socket
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import msgspec

from hostcc.answers.gossip import Peers
from hostcc.answers.history import History
from hostcc.answers.host import Changes
from hostcc.answers.links import Links
from hostcc.answers.plan import PlanAnswer
from hostcc.answers.status import Status
from hostcc.cli import viewfile
from hostcc.cli.bugreport import ASKED
from hostcc.cli.view import fetch
from hostcc.client import ask
from hostcc.errors import HostccError, InputError, one_line
from hostcc.foreign import tree
from hostcc.model import ClusterView

MAX_FILES = 64
MAX_BYTES = 256 << 20
"""Of all files of an archive, unpacked."""
VIEW = "view"
KINDS: Mapping[str, type[Any]] = {
    "status": Status,
    "history": History,
    "links": Links,
    "plan": PlanAnswer,
    "peers": Peers,
    "changes": Changes,
}
T = TypeVar("T")


@dataclass(frozen=True)
class Evidence:
    """Answers of one agent; None: `missing` says why."""

    source: str
    """Where they are from, in words."""
    taken_at: float
    """Seconds since the epoch."""
    status: Status
    history: History | None = None
    links: Links | None = None
    plan: PlanAnswer | None = None
    peers: Peers | None = None
    changes: Changes | None = None
    view: ClusterView | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    """Answer -> why it is not there."""


def of_agent(path: Path) -> Evidence:
    """Ask an agent.  Raises HostccError where it does not even tell its status."""
    answers: dict[str, Any] = {"status": ask(path, "status")}
    missing: dict[str, str] = {}
    for op in KINDS.keys() - answers.keys():
        try:
            answers[op] = ask(path, op, **ASKED[op])
        except HostccError as error:
            missing[op] = str(error)
    view: ClusterView | None = None
    try:
        view = viewfile.view_of(fetch(path)[1], "view")
    except HostccError as error:
        missing[VIEW] = str(error)
    source = f"the agent at {path} on {socket.gethostname()}"
    return _evidence(source, time.time(), answers, view, missing)


def of_archive(path: Path) -> Evidence:
    """Read an archive that `hostcc bugreport` has written.  Raises InputError."""
    try:
        with path.open("rb") as file:
            files, at = _unpacked(file, path)
    except (OSError, EOFError, tarfile.TarError, gzip.BadGzipFile) as error:
        words = one_line(getattr(error, "strerror", None) or str(error))
        raise InputError(f"{path}: expected an archive of hostcc bugreport, got: {words}") from None
    missing = _told_missing(files)
    answers: dict[str, Any] = {}
    for op in KINDS:
        if f"{op}.json" in files:
            answers[op] = _json(files[f"{op}.json"], f"{path}: {op}.json")
        else:
            missing.setdefault(op, "it is not in the archive")
    if "status" not in answers:
        raise InputError(f"{path}: expected status.json in it: {missing['status']}")
    view = None
    if "view.json" in files:
        view = viewfile.view_of(files["view.json"], f"{path}: view.json")
    else:
        missing.setdefault(VIEW, "it is not in the archive")
    return _evidence(f"the archive {path.name}", at, answers, view, missing)


def _evidence(
    source: str,
    at: float,
    answers: Mapping[str, Any],
    view: ClusterView | None,
    missing: Mapping[str, str],
) -> Evidence:
    typed = {op: _typed(answers[op], KINDS[op], f"{source}: {op}") for op in answers}
    status = cast("Status", typed.pop("status"))
    return Evidence(source, at, status, view=view, missing=dict(missing), **typed)


def _typed(answer: object, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(tree(answer), kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: expected an answer of this version: {error}") from None


def _json(data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: expected JSON: {error}") from None


def _told_missing(files: Mapping[str, bytes]) -> dict[str, str]:
    """Why files are not in the archive, as it says itself."""
    told = _json(files.get("missing.json", b"{}"), "missing.json")
    if not isinstance(told, dict):
        return {}
    return {
        str(name).removesuffix(".json"): str(why)[:500]
        for name, why in told.items()
        if str(name).removesuffix(".json") in {*KINDS, VIEW}
    }


def _unpacked(file: BinaryIO, path: Path) -> tuple[dict[str, bytes], float]:
    """Files by name, without their folder, and when the first was written; nothing is written."""
    found: dict[str, bytes] = {}
    at, left = 0.0, MAX_BYTES
    with tarfile.open(fileobj=cast("BinaryIO", _Bounded(file, path)), mode="r|") as archive:
        for count, entry in enumerate(archive):
            if count >= MAX_FILES:
                raise InputError(f"{path}: expected at most {MAX_FILES} files in it")
            content = archive.extractfile(entry) if entry.isfile() else None
            if content is None:
                continue
            data = content.read(left + 1)
            left -= len(data)
            found[Path(entry.name).name] = data
            at = at or float(entry.mtime)
    return found, at


class _Bounded:
    """A packed file as a stream that ends with an error where it becomes too long."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._unpacked, self._path = gzip.GzipFile(fileobj=file), path
        self._left = MAX_BYTES

    def read(self, size: int = -1) -> bytes:
        data = self._unpacked.read(size if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise InputError(f"{self._path}: expected at most {MAX_BYTES} bytes when unpacked")
        return data
