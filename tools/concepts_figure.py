"""Draws docs/figures/concepts.png: `python -m tools.concepts_figure`.

Two equal jobs on one link, by a model of fluids: with fair shares, and with shares that grow with
the part of the iteration that was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "concepts.png"
STEP_S = 0.002
COMPUTE_S, COMM_S = 0.6, 0.4
"""Of an iteration alone on the link."""
LATE_S = 0.05
"""The second job begins later by this much."""
SHOWN_S = 6.0
DRAWN_STEPS = 8
"""Steps of the model between two points of the figure, which stays small."""
COLOURS = ("#1b6ca8", "#e08e2b")

Weight = Callable[[float], float]
"""The weight of a job that has sent this fraction of its iteration."""


@dataclass
class Job:
    """What is left of the present phase."""

    compute_s: float
    left_s: float = COMM_S

    @property
    def sends(self) -> bool:
        """Whether it communicates."""
        return self.compute_s <= 0

    def advance(self, share: float) -> None:
        """Let a step pass with a share of the link."""
        if not self.sends:
            self.compute_s -= STEP_S
            return
        self.left_s -= share * STEP_S
        if self.left_s <= 0:
            self.compute_s, self.left_s = COMPUTE_S, COMM_S


def shares(weight: Weight) -> list[tuple[float, float]]:
    """Return both jobs' shares of the link, step by step."""
    jobs = [Job(0.1), Job(0.1 + LATE_S)]
    found = []
    for _ in range(round(SHOWN_S / STEP_S)):
        weights = [weight(1 - job.left_s / COMM_S) if job.sends else 0.0 for job in jobs]
        whole = sum(weights) or 1.0
        now = (weights[0] / whole, weights[1] / whole)
        found.append(now)
        for job, share in zip(jobs, now, strict=True):
            job.advance(share)
    return found


def overlap(found: list[tuple[float, float]]) -> float:
    """Return the fraction of the communication during which both jobs sent."""
    both = sum(1 for a, b in found if a and b)
    return both / max(1, sum(1 for a, b in found if a or b))


def fair(_sent: float) -> float:
    """Weigh all alike."""
    return 1.0


def unfair(sent: float) -> float:
    """Weigh by F, which grows with what was sent."""
    return 0.25 + 1.75 * sent


def main() -> None:
    """Draw the figure; the same file each time."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 1, figsize=(8, 3.6), sharex=True, layout="constrained")
    rows = (("fair shares: every collision repeats", fair), ("unfair: they drift apart", unfair))
    for axis, (title, weight) in zip(axes, rows, strict=True):
        found = shares(weight)[::DRAWN_STEPS]
        times = [number * DRAWN_STEPS * STEP_S for number in range(len(found))]
        for job, colour in enumerate(COLOURS):
            below = [0.0 if job == 0 else one[0] for one in found]
            above = [low + one[job] for low, one in zip(below, found, strict=True)]
            label = f"job {'AB'[job]}"
            axis.fill_between(times, below, above, step="post", color=colour, lw=0, label=label)
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_ylabel("link")
        axis.set_yticks([0, 1], ["0", "full"])
        axis.set_xlim(0, SHOWN_S)
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8, frameon=False)
    axes[1].set_xlabel("time, iterations alone")
    figure.savefig(FIGURE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
