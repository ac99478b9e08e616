"""What a piece of evidence is: lines of published and measured values, and its JSON form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, to_builtins

SCHEMA = "hostcc.evidence/1"
Kind = Literal["fitted", "predicted"]
"""Fitted: a parameter was set so that this figure comes out, which proves nothing."""


class Line(Struct, frozen=True, kw_only=True):
    """One published figure and the one found here."""

    setting: str
    figure: str
    """What it is, with its unit."""
    published: float | None
    """None: the source gives an order or nothing, which `why` says."""
    here: float
    kind: Kind = "predicted"
    bar: str = ""
    """What has to hold; empty: nothing is promised."""
    met: bool | None = None
    """Whether it does; None: there is no bar."""
    why: str = ""
    """Of a difference, of a fit, or of what stands for a missing input."""

    @property
    def difference(self) -> float | None:
        """Value here minus the published one."""
        return None if self.published is None else self.here - self.published


class Curve(Struct, frozen=True, kw_only=True):
    """One line of a plot."""

    panel: str
    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    x_label: str = ""
    y_label: str = ""


class Evidence(Struct, frozen=True, kw_only=True):
    """What a study found."""

    lines: tuple[Line, ...]
    missing: tuple[str, ...] = ()
    """Published inputs that are not available, and what stands for each."""
    notes: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()

    @property
    def met(self) -> bool:
        """Whether every bar is."""
        return all(line.met is not False for line in self.lines)


@dataclass(frozen=True)
class Request:
    """How a study is to run."""

    quick: bool = False
    """Small settings, in seconds."""
    out: Path | None = None
    """Where a study that takes long keeps finished cases, to go on after them."""
    fit: bool = False
    """Set free numbers anew first, where a study has some."""
    tell: Callable[[str, float, float], None] = lambda *_: None
    """Progress: what, how much is done, of how much."""


@dataclass(frozen=True)
class Study:
    """A group of published figures, and how they are found here."""

    name: str
    source: str
    """Paper and figures."""
    about: str
    run: Callable[[Request], Evidence]
    fits: bool = False
    """Whether it can set free numbers anew."""


@dataclass(frozen=True)
class Absent:
    """Published figures that no study reproduces."""

    figures: str
    why: str


def within(
    setting: str, figure: str, published: float, here: float, *, tolerance: float, why: str = ""
) -> Line:
    """Return a prediction with the bar that it is within `tolerance` (relative) of a figure."""
    met = abs(here - published) <= tolerance * abs(published)
    words = f"within {100 * tolerance:g} %" if tolerance else "equal"
    return Line(
        setting=setting, figure=figure, published=published, here=here, bar=words, met=met, why=why
    )


def answer(found: Sequence[tuple[Study, Evidence]], *, quick: bool) -> dict[str, Any]:
    """Return the document that --json prints."""
    return {
        "schema": SCHEMA,
        "quick": quick,
        "evidence": [
            {
                "name": study.name,
                "source": study.source,
                "met": evidence.met,
                "lines": [
                    {**to_builtins(line), "difference": line.difference} for line in evidence.lines
                ],
                "missing": list(evidence.missing),
                "notes": list(evidence.notes),
                "curves": to_builtins(evidence.curves),
            }
            for study, evidence in found
        ],
    }
