"""Compile shared libraries in C, once per content of their sources.

Like hostcc.bpf.build: standard library only, a library is rebuilt when a source, a header
beside one, the compiler or a flag has changed, and its seal says what it was built from.
`python -m hostcc.verbs.build` builds all of the product's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostcc.bpf.loader.seal import key_of, seal

HERE = Path(__file__).resolve().parent
FLAGS = (
    "-std=gnu11", "-O2", "-g0", "-fPIC", "-shared", "-Wall", "-Wextra",
    "-Wl,-z,relro,-z,now", "-fno-ident",
)  # fmt: skip


class BuildError(Exception):
    """A compiler is missing or refused; the message is what it said."""


@dataclass(frozen=True)
class Library:
    """One shared library."""

    target: Path
    sources: tuple[Path, ...]
    flags: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    """Patterns of the symbols that others see; all else is hidden."""


PCIE = Library(
    HERE / "libhostcc-pcie.so",
    (HERE / "semaphore.c", HERE / "region.c"),
    exports=("hcc_sem_*",),
)


def build(library: Library, *, force: bool = False, werror: bool = False) -> bool:
    """Compile a library; True when there was something to do.  Raises BuildError."""
    compiler = next((path for name in ("gcc", "clang") if (path := shutil.which(name))), None)
    if compiler is None:
        raise BuildError(f"no compiler for {library.target.name}: install gcc")
    key = _key(library, compiler)
    if not force and library.target.exists() and key_of(library.target.read_bytes()) == key:
        return False
    temporary = library.target.with_name(f".{library.target.name}.{os.getpid()}")
    script = temporary.with_suffix(".map")
    try:
        script.write_text(f"{{ global: {' '.join(f'{e};' for e in library.exports)} local: *; }};")
        _run([
            compiler, *FLAGS, *(["-Werror"] if werror else []), f"-Wl,--version-script={script}",
            f"-ffile-prefix-map={HERE.parent}=/hostcc", f"-I{HERE}",
            *map(str, library.sources), *library.flags,
            "-o", str(temporary),
        ])  # fmt: skip
        temporary.write_bytes(seal(temporary.read_bytes(), key))
        temporary.replace(library.target)
    finally:
        temporary.unlink(missing_ok=True)
        script.unlink(missing_ok=True)
    return True


def _key(library: Library, compiler: str) -> bytes:
    digest = hashlib.sha256()
    real = Path(compiler).resolve()
    flags = f"{FLAGS} {library.flags}".replace(str(HERE.parent), "/hostcc")
    digest.update(f"{real} {real.stat().st_size} {flags}".encode())
    digest.update(f"{library.exports}".encode())
    folders = {HERE, *(source.parent for source in library.sources)}
    headers = sorted(header for folder in folders for header in folder.glob("*.h"))
    for file in [*library.sources, *headers]:
        digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return digest.digest()


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed\n{done.stderr.strip()}")
