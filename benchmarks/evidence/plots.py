"""Plots of evidence; matplotlib (the extra `lab`) is imported only here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.evidence.document import Curve
from hostcc.errors import HostccError


def draw(name: str, curves: Sequence[Curve], folder: Path) -> Path:
    """Write NAME.png, a panel below the other, into a folder; raises HostccError."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise HostccError("plots need matplotlib: pip install 'hostcc[lab]'") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels = list(dict.fromkeys(curve.panel for curve in curves))
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(8, 3 * len(panels)), layout="constrained", squeeze=False
    )
    path = folder / f"{name}.png"
    try:
        for panel, axis in zip(panels, axes[:, 0], strict=True):
            for curve in curves:
                if curve.panel == panel:
                    axis.plot(curve.x, curve.y, marker=".", ms=3, lw=1, label=curve.label)
                    axis.set_xlabel(curve.x_label)
                    axis.set_ylabel(curve.y_label)
            axis.set_title(panel, fontsize=9)
            axis.legend(fontsize=8)
        figure.savefig(path, dpi=130)
    finally:
        plt.close(figure)
    return path
