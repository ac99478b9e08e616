"""Compile the product's shared libraries: `python -m hostcc.verbs.build`.

Used at set-up, by the wheel build and by tests.  Most need a C compiler only; the
transport shim needs the headers of libibverbs-dev, too, and is left out where they are not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hostcc.pcie.library import HERE as PCIE_HERE
from hostcc.pcie.library import PCIE
from hostcc.sim.flowsim.library import FLOWSIM
from hostcc.system import cc

HERE = Path(__file__).resolve().parent
SHIM = cc.shared_library(
    HERE / "libhostcc-rdma.so",
    (HERE / "shim.c", HERE / "shim_qp.c", HERE / "shim_gate.c", HERE / "shim_turn.c",
     HERE / "shim_device.c", HERE / "shim_bins.c", HERE / "shim_burst.c", HERE / "shim_files.c",
     HERE / "shim_libraries.c", HERE / "shim_state.c", HERE / "plan.c", *PCIE.sources),
    exports=(
        "ibv_modify_qp", "ibv_query_qp", "ibv_destroy_qp", "ibv_close_device", "dlvsym",
        "hcc_plan_layout",
    ),
    libraries=cc.OLD_GLIBC_LIBRARIES,
)  # fmt: skip
NCCL_ENV = cc.shared_library(
    HERE / "libnccl-env-hostcc.so",
    (HERE / "nccl_env.c", HERE / "nccl_next.c", HERE / "plan.c"),
    exports=("ncclEnvPlugin_v1", "ncclEnvPlugin_v2", "hcc_plan_layout"),
    libraries=("-ldl", "-pthread"),
    header_folders=(PCIE_HERE,),
)
LIBRARIES = (PCIE, SHIM, NCCL_ENV, FLOWSIM)
VERBS_HEADER = Path("/usr/include/infiniband/verbs.h")


def build_all(*, force: bool = False, werror: bool = False) -> list[tuple[Path, str]]:
    """(library, "built", "up to date" or why it was left out) of each.  Raises BuildError."""
    done = []
    for library in LIBRARIES:
        if library is SHIM and not VERBS_HEADER.exists():
            done.append((library.target, "left out: no libibverbs-dev"))
            continue
        rebuilt = cc.build(library, force=force, werror=werror)
        done.append((library.target, cc.outcome_of(rebuilt)))
    return done


def main(arguments: list[str] | None = None) -> int:
    """Command line; exit status 1 when something does not compile."""
    options = cc.parser("hostcc.verbs.build", __doc__).parse_args(arguments)
    return cc.report(
        "hostcc.verbs.build", lambda: build_all(force=options.force, werror=options.werror)
    )


if __name__ == "__main__":
    sys.exit(main())
