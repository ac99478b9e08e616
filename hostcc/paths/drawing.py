"""Draws a path table in characters.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hostcc.paths.search import Hops


def drawing(src: str, dst: str, paths: Mapping[Hops, str]) -> str:
    """Draw paths from left to right, one a line; common hops at both ends are drawn once.

    `paths` maps hops to a path's label.
    """
    ways = sorted(paths)
    if not ways:
        return f"{src} ... {dst}"
    depth = min(len(way) for way in ways)
    head = next((i for i in range(depth) if len({w[i] for w in ways}) > 1), depth)
    rest = depth - head
    tail = next((i for i in range(rest) if len({w[-1 - i] for w in ways}) > 1), rest)
    if len(ways) == 1:
        tail = 0
    before = " - ".join([src, *ways[0][:head]])
    after = " - ".join([*(ways[0][-tail:] if tail else ()), dst])
    middles = [" - ".join(way[head : len(way) - tail]) or "(direct)" for way in ways]
    if len(ways) == 1:
        return " - ".join([src, *ways[0], dst]) + f"   [{paths[ways[0]]}]"
    width = max(map(len, middles))
    centre = (len(ways) - 1) // 2
    lines = []
    for row, (way, middle) in enumerate(zip(ways, middles, strict=True)):
        left, right = _brackets(row, len(ways))
        here = row == centre
        start = (before + " " if here else " " * (len(before) + 1)) + ("-" if here else " ") + left
        end = right + ("- " + after if here else "  " + " " * len(after))
        lines.append(f"{start} {middle:<{width}} {end}   [{paths[way]}]")
    return "\n".join(lines)


def _brackets(row: int, rows: int) -> tuple[str, str]:
    if row == 0:
        return ",-", "-."
    if row == rows - 1:
        return "`-", "-'"
    return "|-", "-|"
