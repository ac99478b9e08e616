"""Draws the circles of a link's jobs laid over each other (Cassini, figure 4.5 of the thesis).

A turn clockwise is the jobs' common period.  Each job has a ring, coloured where it sends; what is
sent at the same time and does not fit is red.  On the left all iterations begin at once, on the
right each job is turned so that they fit best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostcc.report import svg
from hostcc.schedule.link_circles import Arc, LinkCircle

WIDTH, HEIGHT = 740.0, 262.0
"""Of one link's picture."""
OUTER, INNER = 92.0, 26.0
"""Radii between which the rings are."""
MAX_RING = 15.0
NAME_CHARS = 26
"""Of a name in the key; the rest is cut."""
CENTRES = ((112.0, 138.0, False), (340.0, 138.0, True))
"""x and y of each circle, and whether its jobs are turned."""
KEY_X = 464.0


def picture(of: LinkCircle, colours: Mapping[str, str], more: int = 0) -> str:
    """Return the picture of one link for a page; `more`: links with the same circles."""
    return svg.drawing(WIDTH, HEIGHT, *_drawn(of, colours, more), title=f"circles of {of.link}")


def sheet(several: Sequence[LinkCircle]) -> str:
    """Return the pictures of several links below each other, as a file."""
    rows = [
        svg.tag("g", *_drawn(one, {}), transform=f"translate(0 {at * HEIGHT:g})")
        for at, one in enumerate(several)
    ]
    return svg.document(WIDTH, HEIGHT * len(rows), *rows, title="circles of shared links")


def shortened(name: str, most: int = NAME_CHARS) -> str:
    """Return a name that is not too long for its place."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def score_words(of: LinkCircle) -> str:
    """Return what the figures mean."""
    if of.score >= 1 - 1e-9:
        return "all bursts find room at once"
    exact = "the best score" if of.exact else "the best score that was found"
    return f"{exact} is {of.score:.2f}; 1: all find room"


def turned(arcs: Sequence[Arc], by: float) -> list[Arc]:
    """Return arcs that begin later by a fraction of the circle."""
    return [((start + by) % 1.0, (start + by) % 1.0 + end - start) for start, end in arcs]


def ring_width(jobs: int) -> float:
    """Return how wide the ring of each job is."""
    return min(MAX_RING, (OUTER - INNER) / max(1, jobs))


def _drawn(of: LinkCircle, given: Mapping[str, str], more: int = 0) -> list[str]:
    alike = f", and {more} more with the same jobs" if more else ""
    parts = [svg.label(12, 22, f"{shortened(of.link, 60)}{alike}", 14, font_weight=600)]
    colours = [given.get(one.job, svg.colour(at)) for at, one in enumerate(of.jobs)]
    for x, y, fits in CENTRES:
        parts += _circle(of, x, y, colours, fits=fits)
    return [*parts, *_key(of, colours)]


def _circle(of: LinkCircle, x: float, y: float, colours: Sequence[str], *, fits: bool) -> list[str]:
    wide = ring_width(len(of.jobs))
    parts = []
    for place, one in enumerate(of.jobs):
        radius = OUTER - (place + 0.5) * wide
        parts.append(
            svg.tag(
                "circle", cx=x, cy=y, r=radius, fill="none", stroke=svg.TRACK, stroke_width=wide - 2
            )
        )
        for start, end in turned(one.up, one.shift if fits else 0.0):
            parts.append(
                svg.arc(
                    x, y, radius, start, end, stroke=colours[place], stroke_width=wide - 2,
                    opacity=max(0.35, one.share),
                )
            )  # fmt: skip
    for start, end in of.left if fits else of.collisions:
        parts.append(svg.arc(x, y, OUTER + 5, start, end, stroke=svg.ALARM, stroke_width=6))
    for tick in range(4):
        (left, top), (right, low) = (
            svg.point(x, y, radius, tick / 4) for radius in (OUTER + 1, OUTER + 9)
        )
        line = f"M{left:.2f} {top:.2f}L{right:.2f} {low:.2f}"
        parts.append(svg.tag("path", d=line, stroke=svg.FAINT, stroke_width=1))
    score = of.score if fits else of.together
    parts.append(svg.label(x, y + 4, f"{score:.2f}", 13, text_anchor="middle", font_weight=600))
    words = "turned to fit best" if fits else "all begin at once"
    parts.append(svg.label(x, y + OUTER + 26, words, 11, text_anchor="middle", fill=svg.FAINT))
    return parts


def _key(of: LinkCircle, colours: Sequence[str]) -> list[str]:
    step = min(34.0, (HEIGHT - 110) / max(1, len(of.jobs)))
    parts = []
    for place, one in enumerate(of.jobs):
        y = 56 + place * step
        size = min(11.0, step - 1)
        parts += [
            svg.tag("rect", x=KEY_X, y=y - size + 2, width=10, height=size - 1, rx=2,
                    fill=colours[place]),
            svg.label(KEY_X + 16, y + 1, shortened(one.job), size),
        ]  # fmt: skip
        if step >= 24:
            shift_s = one.shift * of.perimeter_s
            later = f", turned by {shift_s * 1e3:.4g} ms" if shift_s >= 5e-4 else ""
            often = f", {one.turns} iterations" if one.turns > 1 else ""
            words = f"level {one.level}{often}{later}"
            parts.append(svg.label(KEY_X + 16, y + 14, words, 10, fill=svg.FAINT))
    y = 62 + len(of.jobs) * step
    return [
        *parts,
        svg.tag("rect", x=KEY_X, y=y - 8, width=10, height=10, rx=2, fill=svg.ALARM),
        svg.label(KEY_X + 16, y + 1, "more than the link carries", 11),
        svg.label(KEY_X, y + 22, f"a turn is {of.perimeter_s * 1e3:.4g} ms", 11, fill=svg.FAINT),
        svg.label(KEY_X, y + 38, score_words(of), 11, fill=svg.FAINT),
    ]
