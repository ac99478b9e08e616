"""Compile the lab's two small C programs, once per content of the source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hostcc.lab.errors import LabError

SOURCES = Path(__file__).parent
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
