"""Compile the lab's small C programs into its cache, once per content of the source."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from hostcc.bpf.build import compile_object
from hostcc.lab.errors import LabError
from hostcc.system import cc

SOURCES = Path(__file__).parent
CACHE = Path("/run/hostcc-lab/build")
MESSAGE_CHARACTERS = 300
"""Of a compiler's complaint that are shown."""


def program(source: str, *flags: str) -> Path:
    """Path of the program or shared library built from a source beside this file.

    Raises LabError with the compiler's first words.
    """
    target = CACHE / source.removesuffix(".c")
    artifact = cc.Artifact(
        target, (SOURCES / source,), ("-O2", "-Wall", *flags), compilers=("cc", "gcc", "clang")
    )
    return _compiled(target, lambda: cc.build(artifact))


def bpf_object(source: str | Path, defines: Sequence[str] = ()) -> Path:
    """Path of the BPF object of a source, for `tc` and hostcc.bpf.loader.object.

    A name without folder is beside this file.  Objects with different `defines` (macros,
    NAME=VALUE) have files of their own.  Raises LabError with the compiler's first words.
    """
    path = SOURCES / source
    words = hashlib.sha256("\0".join(defines).encode()).hexdigest()[:8]
    variant = f"-{words}" if defines else ""
    target = CACHE / f"{path.name.removesuffix('.bpf.c')}{variant}.bpf.o"
    return _compiled(target, lambda: compile_object(path, target, defines=defines))


def _compiled(target: Path, build: Callable[[], bool]) -> Path:
    try:
        build()
    except (cc.BuildError, OSError) as error:
        raise LabError(
            f"{target.name}: {' '.join(str(error).split())[:MESSAGE_CHARACTERS]}"
        ) from error
    return target
