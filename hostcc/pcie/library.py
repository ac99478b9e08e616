"""The shared library of the semaphores: its sources, and which symbols others see.

`python -m hostcc.verbs.build` compiles it.
"""

from __future__ import annotations

from pathlib import Path

from hostcc.system.cc import shared_library

HERE = Path(__file__).resolve().parent
PCIE = shared_library(
    HERE / "libhostcc-pcie.so",
    (HERE / "semaphore.c", HERE / "region.c"),
    exports=("hcc_sem_*",),
)
