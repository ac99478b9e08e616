"""Memory and open files of a soak's agents over time, as a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.soak_samples import Sample, lives


def draw(samples: Sequence[Sample], path: Path) -> Path:
    """A line for each agent's life, a colour for each host."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    made, axes = plt.subplots(3, 1, figsize=(8, 6), sharex=True, layout="constrained")
    hosts = sorted({one.host for one in samples})
    shown: tuple[tuple[str, Callable[[Sample], float]], ...] = (
        ("memory, MB", lambda one: one.resident_bytes / 1e6),
        ("open files", lambda one: one.open_files),
        ("BPF objects", lambda one: one.objects),
    )
    for axis, (label, of) in zip(axes, shown, strict=True):
        for life in lives(samples):
            minutes = [one.at_s / 60 for one in life]
            colour = f"C{hosts.index(life[0].host)}"
            axis.plot(minutes, [of(one) for one in life], color=colour, lw=1, marker=".", ms=2)
        axis.set_ylabel(label, fontsize=9)
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
    for number, host in enumerate(hosts):
        axes[0].plot([], [], color=f"C{number}", label=host)
    axes[0].legend(fontsize=8, frameon=False)
    axes[-1].set_xlabel("minutes", fontsize=9)
    made.savefig(path, dpi=130)
    plt.close(made)
    return path
