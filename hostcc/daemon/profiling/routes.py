"""Which link each job's traffic takes, and how fast it is; asked of the kernel, in a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hostcc.bpf.loader.errors import BpfError
from hostcc.measure import link_speeds
from hostcc.measure.destinations import Address
from hostcc.measure.measured_profile import Link
from hostcc.measure.meter import RX, TX
from hostcc.measure.series import ByteSeries

MAX_DESTINATIONS = 64
"""Destinations of a job whose routes are looked up at most, those with most bytes."""


@dataclass(frozen=True)
class Route:
    """How a job reaches a destination."""

    link: str
    speed_bps: int | None
    nominal: bool


@dataclass(frozen=True)
class Question:
    """Where a job's traffic goes, and where it is sent from."""

    job: str
    netns: Path | None
    to: tuple[Address, ...]


def answers(questions: Sequence[Question]) -> dict[str, dict[Address, Route]]:
    """Job -> destination -> the way there; what cannot be found out is absent."""
    together: dict[object, list[Question]] = {}
    for question in questions:
        with suppress(OSError):  # the job, and its namespace, have gone
            together.setdefault(_which(question.netns), []).append(question)
    found = {}
    for several in together.values():
        try:
            ways = _ways(several)
        except (BpfError, OSError):  # likewise, or one of them: each by itself
            found.update(_each(several))
            continue
        for one in several:
            found[one.job] = {to: ways[to] for to in one.to[:MAX_DESTINATIONS] if to in ways}
    return found


def _each(questions: Sequence[Question]) -> dict[str, dict[Address, Route]]:
    found = {}
    for one in questions:
        with suppress(BpfError, OSError):
            found[one.job] = _ways([one])
    return found


def _which(netns: Path | None) -> object:
    """What tells a network namespace from others; raises OSError when it has gone."""
    if netns is None:
        return None
    about = netns.stat()
    return about.st_dev, about.st_ino


def _ways(questions: Sequence[Question]) -> dict[Address, Route]:
    """Of all that are sent from one network namespace."""
    netns = questions[0].netns
    by_index = {link.index: link for link in link_speeds.links(netns)}
    wanted = dict.fromkeys(to for one in questions for to in one.to[:MAX_DESTINATIONS])
    ways = {}
    for to, index in link_speeds.carriers(wanted, netns).items():
        link = by_index.get(index) if index is not None else None
        if link is not None:
            ways[to] = Route(link.name, link.speed_bps, link.nominal)
    return ways


def used(
    of: ByteSeries,
    shares: Mapping[Address, tuple[float, float]],
    ways: Mapping[Address, Route],
) -> list[Link]:
    """The links of a job's traffic, each with its part of the series by where bytes go lately."""
    parts: dict[Route, tuple[float, float]] = {}
    for to, share in shares.items():
        way = ways.get(to)
        if way is not None:
            tx, rx = parts.get(way, (0.0, 0.0))
            parts[way] = tx + share[TX], rx + share[RX]
    if len(parts) == 1:
        (way,) = parts
        return [Link(way.link, way.speed_bps)]
    return [
        Link(
            way.link,
            way.speed_bps,
            ByteSeries(
                of.bin_ns,
                of.start_ns,
                np.rint(of.tx * tx).astype(np.int64),
                np.rint(of.rx * rx).astype(np.int64),
            ),
        )
        for way, (tx, rx) in sorted(parts.items(), key=lambda item: item[0].link)
    ]
