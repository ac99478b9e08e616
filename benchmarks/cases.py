"""Finished cases on disk, so that a long benchmark can be resumed.

A case is one small JSON file, written when it is finished.  It is reused only when it measured
the same: the file carries digests of everything that the result depends on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hostcc import mltcp
from hostcc.bpf.loader.objects import object_path
from hostcc.config import schema, sections

Result = TypeVar("Result")


@dataclass(frozen=True)
class Identity:
    """What a case is a measurement of, as digests."""

    definition: str
    """Of what was asked for."""
    digest: str
    """Of that and of the programs that were measured."""


class CaseStore(Generic[Result]):
    """Finished cases below a directory; without one nothing is kept."""

    def __init__(
        self,
        directory: Path | None,
        kind: type[Result],
        fresh: bool = False,
        any_programs: bool = False,
        convert: Callable[[Any], Result] | None = None,
    ) -> None:
        """`convert`: how a decoded result becomes one, where `kind` alone does not say; it raises
        ValueError, TypeError or KeyError."""
        self._directory = directory
        self._convert = convert or partial(msgspec.convert, type=kind)
        self._fresh = fresh
        self._any_programs = any_programs
        self.outdated: list[str] = []
        """Cases that were loaded although other programs were measured (`any_programs`)."""
        self._written: set[Path] = set()

    def load(self, name: str, identity: Identity) -> Result | None:
        """A finished case, or None when it is missing, damaged, or of something else."""
        if self._directory is None:
            return None
        path = self._directory / f"{name}.json"
        if self._fresh and path not in self._written:
            return None
        try:
            document: Any = msgspec.json.decode(path.read_bytes())
            same = document["digest"] == identity.digest
            if not same and not (
                self._any_programs and document["definition"] == identity.definition
            ):
                return None
            result = self._convert(document["result"])
        except (OSError, ValueError, TypeError, KeyError):
            return None
        if not same:
            self.outdated.append(name)
        return result

    def save(self, name: str, identity: Identity, result: Result) -> None:
        """Keep a case; it is on disk whole or not at all."""
        if self._directory is None:
            return
        path = self._directory / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(msgspec.json.encode({**asdict(identity), "result": result}))
        temporary.replace(path)
        self._written.add(path)


def identity_of(
    what: Mapping[str, Any], *, programs: bool = False, code: Iterable[Path] = ()
) -> Identity:
    """A case's identity from its definition; with `programs`, what the agent puts into the
    kernel is part of it: the BPF objects, and the modules that choose their parameters.

    `code`: files that are measured; a folder is its Python modules and BPF objects.
    """
    digest = hashlib.sha256(msgspec.json.encode(what, order="deterministic"))
    definition = digest.hexdigest()[:32]
    for path in code:
        for file in sorted([*path.rglob("*.py"), *path.rglob("*.bpf.o")]) or [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    if programs:
        modules = sorted(Path(mltcp.__path__[0]).glob("*.py"))
        defaults = [Path(sections.__path__[0]) / name for name in ("job.py", "mltcp.py")]
        objects = [object_path(name) for name in ("mltcp", "tracker")]
        for path in (*objects, *modules, *defaults, Path(schema.__file__)):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return Identity(definition, digest.hexdigest()[:32])
