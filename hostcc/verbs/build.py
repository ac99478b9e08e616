"""Compile the product's shared libraries: `python -m hostcc.verbs.build`.

Used at set-up, by the wheel build and by tests.  The semaphores need a C compiler only; the
transport shim needs the headers of libibverbs-dev, too, and is left out where they are not.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hostcc.pcie.build import PCIE, BuildError, Library, build

HERE = Path(__file__).resolve().parent
PCIE_SOURCES = PCIE.sources
SHIM = Library(
    HERE / "libhostcc-rdma.so",
    (HERE / "shim.c", HERE / "shim_qp.c", HERE / "shim_gate.c", HERE / "shim_turn.c",
     HERE / "shim_device.c", HERE / "plan.c", *PCIE_SOURCES),
    ("-ldl", "-pthread"),
    ("ibv_modify_qp", "ibv_destroy_qp", "ibv_close_device", "dlvsym", "hcc_plan_layout"),
)  # fmt: skip
NCCL_ENV = Library(
    HERE / "libnccl-env.so",
    (HERE / "nccl_env.c", HERE / "plan.c"),
    (),
    ("ncclEnvPlugin_v1", "hcc_plan_layout"),
)
LIBRARIES = (PCIE, SHIM, NCCL_ENV)
VERBS_HEADER = Path("/usr/include/infiniband/verbs.h")


def build_all(*, force: bool = False, werror: bool = False) -> list[tuple[Path, str]]:
    """(library, "built", "up to date" or why it was left out) of each.  Raises BuildError."""
    done = []
    for library in LIBRARIES:
        if library is SHIM and not VERBS_HEADER.exists():
            done.append((library.target, "left out: no libibverbs-dev"))
            continue
        rebuilt = build(library, force=force, werror=werror)
        done.append((library.target, "built" if rebuilt else "up to date"))
    return done


def main(arguments: list[str] | None = None) -> int:
    """Command line; exit status 1 when something does not compile."""
    parser = argparse.ArgumentParser(prog="python -m hostcc.verbs.build", description=__doc__)
    parser.add_argument("--force", action="store_true", help="rebuild what is up to date, too")
    parser.add_argument("--werror", action="store_true", help="make warnings errors")
    options = parser.parse_args(arguments)
    try:
        for target, what in build_all(force=options.force, werror=options.werror):
            print(f"{target}: {what}")
    except BuildError as error:
        print(f"hostcc.verbs.build: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
