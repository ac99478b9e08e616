"""Compile the BPF objects: `python -m hostcc.bpf.build`.

Used at set-up, by the wheel build and by tests; needs clang and the headers of libbpf-dev
and linux-libc-dev.  Imports nothing but the standard library, so that it runs before
anything is installed.  An object is rebuilt when its source, a header beside it, the
compiler or a flag has changed; the digest of those is in its seal (hostcc.bpf.loader.seal).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from hostcc.bpf.loader.seal import key_of, seal

HERE = Path(__file__).resolve().parent / "programs"
_TARGET_ARCH = {"x86_64": "x86", "aarch64": "arm64"}


class BuildError(Exception):
    """A tool is missing or the compiler refused; the message is what it said."""


def flags(folder: Path = HERE) -> list[str]:
    """Compiler flags for this machine, for sources in `folder`, from where clang is to run.

    -g because BTF is made from debug information.
    """
    machine = platform.machine()
    multiarch = sysconfig.get_config_var("MULTIARCH") or f"{machine}-linux-gnu"
    return [
        "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra",
        "-Wno-unused-parameter", "-Wno-sign-compare", "-fno-ident",
        f"-D__TARGET_ARCH_{_TARGET_ARCH.get(machine, machine)}",
        f"-I/usr/include/{multiarch}", f"-I{os.path.relpath(HERE, folder)}",
        # BTF names files: not by where the sources happen to lie.
        "-fdebug-compilation-dir=.",
    ]  # fmt: skip


def compile_object(
    source: Path,
    target: Path,
    *,
    force: bool = False,
    werror: bool = False,
    compiler: str = "clang",
) -> bool:
    """Compile one `*.bpf.c` to `target`; True when there was something to do.

    `werror` makes warnings errors: right for us, wrong for whoever has another compiler.
    Raises BuildError with the compiler's words.
    """
    clang, strip = _tool(compiler), _tool("llvm-strip")
    key = _key(source, clang)
    if not force and target.exists() and key_of(target.read_bytes()) == key:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.absolute().with_name(f".{target.name}.tmp")
    try:
        options = [*flags(source.parent), "-I.", *(["-Werror"] if werror else [])]
        _run([clang, *options, "-c", source.name, "-o", str(temporary)], source.parent)
        _run([strip, "-g", str(temporary)], source.parent)  # DWARF goes, BTF stays
        temporary.write_bytes(seal(temporary.read_bytes(), key))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def build_directory(
    sources: Path = HERE,
    targets: Path | None = None,
    *,
    force: bool = False,
    werror: bool = False,
) -> list[tuple[Path, bool]]:
    """Compile every `*.bpf.c` of a directory; (object, whether it was rebuilt) of each."""
    built = []
    for source in sorted(sources.glob("*.bpf.c")):
        target = (targets or sources) / f"{source.name.removesuffix('.c')}.o"
        built.append((target, compile_object(source, target, force=force, werror=werror)))
    return built


def main(arguments: list[str] | None = None) -> int:
    """Command line; exit status 1 when something does not compile."""
    parser = argparse.ArgumentParser(prog="python -m hostcc.bpf.build", description=__doc__)
    parser.add_argument("--force", action="store_true", help="rebuild what is up to date, too")
    parser.add_argument("--output", type=Path, help="directory for the objects [beside sources]")
    parser.add_argument("--werror", action="store_true", help="make warnings errors")
    options = parser.parse_args(arguments)
    try:
        built = build_directory(targets=options.output, force=options.force, werror=options.werror)
        for target, rebuilt in built:
            print(f"{target}: {'built' if rebuilt else 'up to date'}")
    except BuildError as error:
        print(f"hostcc.bpf.build: {error}", file=sys.stderr)
        return 1
    return 0


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise BuildError(f"{name} not found; install the packages clang and llvm")
    return path


def _key(source: Path, clang: str) -> bytes:
    digest = hashlib.sha256()
    compiler = Path(clang).resolve()
    digest.update(f"{compiler} {compiler.stat().st_size} {flags()}".encode())
    headers = sorted({*source.parent.glob("*.h"), *HERE.glob("*.h")})
    for file in [source, *headers]:
        digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return digest.digest()


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed\n{done.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main())
