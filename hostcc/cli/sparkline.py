"""A line of figures as characters.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.,-~=+#"
"""For terminals without Unicode."""


def sparkline(
    values: Sequence[float | None], width: int, top: float = 0.0, *, plain: bool = False
) -> str:
    """The latest `width` figures, a character each; unknown ones are blank.

    `top`: what the highest character stands for; 0: the largest of them.
    """
    shown = (
        [None if value is None else max(0.0, value) for value in values[-width:]] if width else []
    )
    known = [value for value in shown if value is not None]
    top = top or max(known, default=0.0)
    marks = PLAIN if plain else BLOCKS
    steps = len(marks) - 1

    def mark(value: float | None) -> str:
        if value is None:
            return " "
        return marks[min(steps, round(value / top * steps))] if top else marks[0]

    return "".join(map(mark, shown)).rjust(width)
