"""Run tests in a virtual machine with a kernel of `tools/kernels`, or Debian 12's own.

python -m tests.fleet.in_guest KERNEL [pytest arguments]
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.vm import machine

OLDEST = "bookworm"
KERNELS = machine.REPOSITORY / ".vm/kernels"


def tree_of(kernel: str) -> Path:
    """Where a kernel's package is unpacked."""
    return machine.KERNEL_TREE if kernel == OLDEST else KERNELS / kernel


def here() -> list[str]:
    """The kernels that can be booted, oldest first."""
    names = [OLDEST, *(path.name for path in KERNELS.glob("*") if path.is_dir())]
    there = [name for name in names if (tree_of(name) / "boot").exists()]
    return sorted(there, key=lambda name: release(tree_of(name)))


def release(tree: Path) -> tuple[int, ...]:
    """Version of a tree's kernel, as numbers."""
    name = max(path.name for path in (tree / "lib/modules").iterdir())
    return tuple(map(int, name.partition("-")[0].partition("+")[0].split(".")))


def words(arguments: list[str]) -> list[str]:
    """The command that runs tests there."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]


def main(arguments: list[str]) -> int:
    """Run tests, and print what they say; returns their exit status."""
    if not arguments or arguments[0] not in here():
        print(
            f"in_guest: expected one of {', '.join(here()) or 'no kernel'};"
            " tools/setup --with-vm and tools/kernels get them",
            file=sys.stderr,
        )
        return 2
    outcome = machine.run(words(arguments[1:]), tree_of(arguments[0]))
    print(outcome.output, end="")
    if outcome.status is None:
        print(machine.described(outcome), file=sys.stderr)
    return 1 if outcome.status is None else outcome.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
