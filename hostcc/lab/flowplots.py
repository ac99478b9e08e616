"""A plot of which way every flow of a leaf-spine fabric went, over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hostcc.lab.results import Results


def draw(plt: Any, results: Results, out: Path) -> Path | None:
    """A panel per variant (its first run), a row per flow, coloured by spine; None: no flows."""
    runs = [(variant.name, variant.runs[0]) for variant in results.variants if variant.runs]
    runs = [(name, run) for name, run in runs if run.flows]
    if not runs:
        return None
    rows = max(len(run.flows) for _, run in runs)
    size = (8, 0.8 + len(runs) * (0.5 + 0.18 * rows))
    figure, axes = plt.subplots(len(runs), 1, figsize=size, squeeze=False, layout="constrained")
    shown: dict[int, Any] = {}
    for (name, run), axis in zip(runs, axes[:, 0], strict=True):
        for row, flow in enumerate(run.flows):
            for way in flow.ways:
                span = max(way.last_s - way.first_s, 0.02)
                bar = axis.barh(
                    row, span, left=way.first_s, height=0.7, color=f"C{way.spine - 1}", alpha=0.8
                )
                shown.setdefault(way.spine, bar)
        for event in run.events:
            axis.axvline(event.at_s, color="grey", lw=0.8, ls="--")
        labels = [f"{flow.job} {flow.src}>{flow.dst}" for flow in run.flows]
        axis.set_yticks(range(len(labels)), labels, fontsize=7)
        axis.invert_yaxis()
        axis.set_title(name, fontsize=9, loc="left")
    axes[-1][0].set_xlabel("time (s)")
    order = sorted(shown)
    figure.legend(
        [shown[spine] for spine in order], [f"spine {spine}" for spine in order],
        loc="outside right upper", fontsize=7, frameon=False,
    )  # fmt: skip
    path = out / "paths.png"
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path
