"""Compile the lab's small C programs, once per content of the source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hostcc.bpf.build import BuildError, compile_object
from hostcc.lab.errors import LabError

SOURCES = Path(__file__).parent
BPF_FLAGS = (
    "-target", "bpf", "-O2", "-g", "-I/usr/include/x86_64-linux-gnu",
    "-I/usr/include/aarch64-linux-gnu",
)  # fmt: skip
CACHE = Path("/run/hostcc-lab/build")


def compiled(source: str, compilers: Sequence[str], flags: Sequence[str]) -> Path:
    """Path of the program built from a source beside this file.

    `compilers` are tried in order.  Raises LabError with the compiler's first words.
    """
    text = (SOURCES / source).read_bytes()
    key = hashlib.sha256(text + "\0".join(flags).encode()).hexdigest()[:16]
    target = CACHE / f"{source.partition('.')[0]}-{key}"
    if target.exists():
        return target
    compiler = next((path for name in compilers if (path := shutil.which(name))), None)
    if compiler is None:
        raise LabError(f"no compiler for {source}: install one of {', '.join(compilers)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [compiler, *flags, "-o", str(temporary), str(SOURCES / source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"{compiler} {source}: {' '.join(done.stderr.split())[:300]}")
    temporary.rename(target)
    return target


def compiled_bpf(source: str, *flags: str) -> Path:
    """Path of the BPF object built from a source beside this file.  Raises LabError."""
    return compiled(source, ("clang",), (*BPF_FLAGS, *flags, "-c"))


def loadable(source: str) -> Path:
    """Path of the object of a source beside this file, as hostcc.bpf.loader.object takes it.

    Raises LabError.
    """
    target = CACHE / f"{source.removesuffix('.c')}.o"
    try:
        compile_object(SOURCES / source, target)
    except (BuildError, OSError) as error:
        raise LabError(f"{source}: {' '.join(str(error).split())[:300]}") from error
    return target
