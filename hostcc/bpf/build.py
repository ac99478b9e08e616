"""Compile the BPF objects: `python -m hostcc.bpf.build`.

Used at set-up, by the wheel build and by tests; needs clang and the headers of libbpf-dev
and linux-libc-dev.  Imports nothing but the standard library and hostcc.system.cc, so that
it runs before anything is installed.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from hostcc.system import cc

HERE = Path(__file__).resolve().parent / "programs"
_TARGET_ARCH = {"x86_64": "x86", "aarch64": "arm64"}


def flags() -> list[str]:
    """Compiler flags for this machine; -g because BTF is made from debug information."""
    machine = platform.machine()
    multiarch = sysconfig.get_config_var("MULTIARCH") or f"{machine}-linux-gnu"
    return [
        "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra",
        "-Wno-unused-parameter", "-Wno-sign-compare", "-fno-ident",
        f"-D__TARGET_ARCH_{_TARGET_ARCH.get(machine, machine)}",
        f"-I/usr/include/{multiarch}",
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
    defines: Sequence[str] = (),
) -> bool:
    """Compile one `*.bpf.c` to `target`; True when there was something to do.

    `defines` are macros, as NAME=VALUE.  Raises BuildError with the compiler's words.
    """
    artifact = cc.Artifact(
        target,
        (source,),
        (*flags(), *(f"-D{macro}" for macro in defines), "-c"),
        header_folders=(HERE,),
        compilers=(compiler,),
        package="the packages clang and llvm",
        strip_debug=True,
    )
    return cc.build(artifact, force=force, werror=werror)


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
    parser = cc.parser("hostcc.bpf.build", __doc__)
    parser.add_argument("--output", type=Path, help="directory for the objects [beside sources]")
    options = parser.parse_args(arguments)
    return cc.report(
        "hostcc.bpf.build",
        lambda: [
            (target, cc.outcome_of(rebuilt))
            for target, rebuilt in build_directory(
                targets=options.output, force=options.force, werror=options.werror
            )
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
