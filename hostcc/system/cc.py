"""Compile C, once per content: BPF objects, shared libraries, the lab's programs.

Imports nothing but the standard library, so that it runs before anything is installed.  A
file is made again when a source, a header beside one, the compiler or a flag has changed; its
seal (hostcc.system.seal) has the digest of those.  The compiler runs in the folder of the
first source and gets relative paths: the same sources make the same bytes wherever they lie.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostcc.system.seal import key_of, seal

HERE = Path(__file__).resolve().parent
SHARED_LIBRARY_FLAGS = (
    "-std=gnu11", "-O2", "-g0", "-fPIC", "-shared", "-Wall", "-Wextra",
    "-Wl,-z,relro,-z,now,-s", "-fno-ident", "-include", "old_glibc.h",
)  # fmt: skip
OLD_GLIBC_LIBRARIES = ("-Wl,--no-as-needed", "-l:libdl.so.2", "-l:libpthread.so.0")
"""Where glibc 2.28 has what newer ones have in libc itself (old_glibc.h)."""


class BuildError(Exception):
    """A tool is missing or refused; the message is what it said."""


@dataclass(frozen=True)
class Artifact:
    """One file to compile: an object, a shared library or a program."""

    target: Path
    sources: tuple[Path, ...]
    flags: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    """Words for the linker, after the sources."""
    header_folders: tuple[Path, ...] = ()
    """Where headers are, beside the folders of the sources."""
    exports: tuple[str, ...] = ()
    """Patterns of the symbols that others see, all else is hidden; empty: the flags decide."""
    compilers: tuple[str, ...] = ("gcc", "clang")
    """Names of compilers; the first that is installed is taken."""
    package: str = "the package gcc"
    """What to install where there is no compiler."""
    strip_debug: bool = False
    """Whether debug information goes; BTF stays."""

    @property
    def folder(self) -> Path:
        """Where the compiler runs."""
        return self.sources[0].absolute().parent

    @property
    def include_folders(self) -> list[Path]:
        """Where headers are, that of the first source at the head."""
        folders = (*(source.absolute().parent for source in self.sources), *self.header_folders)
        return list(dict.fromkeys(folders))


def shared_library(
    target: Path,
    sources: Sequence[Path],
    *,
    exports: Sequence[str],
    libraries: Sequence[str] = (),
    header_folders: Sequence[Path] = (),
) -> Artifact:
    """A shared library of the product; only `exports` are visible."""
    return Artifact(
        target, tuple(sources), SHARED_LIBRARY_FLAGS, tuple(libraries), (*header_folders, HERE),
        tuple(exports),
    )  # fmt: skip


def build(artifact: Artifact, *, force: bool = False, werror: bool = False) -> bool:
    """Compile an artifact; True when there was something to do.

    `force` compiles what is up to date, too.  `werror` makes warnings errors: right for us,
    wrong for whoever has another compiler.  Raises BuildError with the compiler's words, and
    leaves the target as it was then.
    """
    target = artifact.target
    compiler = _tool(artifact.compilers, artifact.package)
    key = _key(artifact, compiler)
    if not force and target.exists() and key_of(target.read_bytes()) == key:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        made = Path(scratch).absolute() / target.name
        options = [*artifact.flags, *(["-Werror"] if werror else [])]
        if artifact.exports:
            script = made.with_suffix(".map")
            names = " ".join(f"{name};" for name in artifact.exports)
            script.write_text(f"{{ global: {names} local: *; }};")
            options.append(f"-Wl,--version-script={script}")
        options += [f"-I{_relative(folder, artifact)}" for folder in artifact.include_folders]
        sources = [_relative(source, artifact) for source in artifact.sources]
        _run([compiler, *options, *sources, *artifact.libraries, "-o", str(made)], artifact.folder)
        if artifact.strip_debug:
            _run([_tool(("llvm-strip",), artifact.package), "-g", str(made)], artifact.folder)
        made.write_bytes(seal(made.read_bytes(), key))
        made.replace(target)
    return True


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """A parser of a build command's options: `--force` and `--werror`."""
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    made.add_argument("--force", action="store_true", help="rebuild what is up to date, too")
    made.add_argument("--werror", action="store_true", help="make warnings errors")
    return made


def report(module: str, outcomes: Callable[[], Iterable[tuple[Path, str]]]) -> int:
    """Build, and print each file with what was done; exit status 1 for what does not compile."""
    try:
        for target, outcome in outcomes():
            print(f"{target}: {outcome}")
    except BuildError as error:
        print(f"{module}: {error}", file=sys.stderr)
        return 1
    return 0


def outcome_of(rebuilt: bool) -> str:
    """What a build command says of a file."""
    return "built" if rebuilt else "up to date"


def _tool(names: Sequence[str], package: str) -> str:
    path = next((path for name in names if (path := shutil.which(name))), None)
    if path is None:
        raise BuildError(f"{' or '.join(names)} not found; install {package}")
    return path


def _relative(path: Path, artifact: Artifact) -> str:
    return os.path.relpath(path, artifact.folder)


def _key(artifact: Artifact, compiler: str) -> bytes:
    digest = hashlib.sha256()
    real = Path(compiler).resolve()
    words = (artifact.flags, artifact.libraries, artifact.exports, artifact.strip_debug)
    digest.update(f"{real} {real.stat().st_size} {words}".encode())
    folders = artifact.include_folders
    # BPF programs are included, too: one that is compiled in two ways is.
    may_include = [file for kind in ("*.h", "*.bpf.c") for at in folders for file in at.glob(kind)]
    for file in [*artifact.sources, *sorted(may_include)]:
        digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return digest.digest()


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed\n{done.stderr.strip()}")
