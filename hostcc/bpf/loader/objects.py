"""Finds the compiled BPF objects of this package."""

from __future__ import annotations

from pathlib import Path

from hostcc.bpf.loader import features
from hostcc.bpf.loader.errors import BpfError

HERE = Path(__file__).resolve().parents[1] / "programs"


def object_path(name: str) -> Path:
    """Return the path of the package's `<name>.bpf.o`; BpfError when it was not built."""
    path = HERE / f"{name}.bpf.o"
    if not path.is_file():
        raise BpfError(
            f"{path}: the BPF object is not built; run python -m hostcc.bpf.build", path=path
        )
    return path


def congestion_path() -> Path:
    """Return the path of the congestion controls as this kernel needs them; BpfError as above."""
    return object_path("mltcp_tx_start" if features.tx_start_operation() else "mltcp")
