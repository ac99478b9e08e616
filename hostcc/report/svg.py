"""Elements of SVG and HTML as text.  Whatever comes from others is escaped here, and only here."""

from __future__ import annotations

import math

from hostcc.foreign import in_html

PALETTE = (
    "#3266ad", "#d9822b", "#2f9e6e", "#b8478e", "#7a63c9", "#1f9fb3", "#a8871d", "#c2514a",
    "#5a7d2a", "#6d7787",
)  # fmt: skip
"""Colours of jobs, told apart on white also by most people who do not tell red from green."""
INK, FAINT, TRACK, ALARM = "#1c2733", "#6d7787", "#e8ecf1", "#d1242f"
EMPTY = {"circle", "meta", "path", "rect"}
"""Elements without content; HTML would take others that are closed like these for open."""
FONT = "system-ui,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"


def colour(number: int) -> str:
    """Return the colour of the job with this place in its list."""
    return PALETTE[number % len(PALETTE)]


def tag(name: str, /, *content: str, **attributes: object) -> str:
    """Return an element.  `content` is markup; attributes are text, `class_` is `class`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{in_html(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(content)
    if not inside and name in EMPTY:
        return f"<{name}{given}/>"
    return f"<{name}{given}>{inside}</{name}>"


def words(text: object) -> str:
    """Return text as the content of an element."""
    return in_html(str(text))


def label(x: float, y: float, text: object, size: float = 11, **more: object) -> str:
    """Return a line of text in a picture."""
    return tag("text", words(text), x=x, y=y, font_size=size, **{"fill": INK, **more})


def drawing(width: float, height: float, *content: str, title: str = "") -> str:
    """Return a picture to be put into a page."""
    name = tag("title", words(title)) if title else ""
    return tag(
        "svg",
        name,
        *content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        font_family=FONT,
        role="img",
    )


def document(width: float, height: float, *content: str, title: str = "") -> str:
    """Return a picture for a file of its own, on white."""
    paper = tag("rect", width=width, height=height, fill="#fff")
    return f'<?xml version="1.0"?>\n{drawing(width, height, paper, *content, title=title)}\n'


def point(x: float, y: float, radius: float, turn: float) -> tuple[float, float]:
    """Return the point of a circle at a fraction of a turn, clockwise from the top."""
    angle = 2 * math.pi * turn
    return x + radius * math.sin(angle), y - radius * math.cos(angle)


def arc(x: float, y: float, radius: float, start: float, end: float, **more: object) -> str:
    """Return a part of a circle's line, from one fraction of a turn to another."""
    if end - start >= 1 - 1e-6:
        return tag("circle", cx=x, cy=y, r=radius, fill="none", **more)
    (left, top), (right, low) = point(x, y, radius, start), point(x, y, radius, end)
    far = int(end - start > 0.5)
    path = f"M{left:.2f} {top:.2f}A{radius:g} {radius:g} 0 {far} 1 {right:.2f} {low:.2f}"
    return tag("path", d=path, fill="none", **more)


def _plain(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
