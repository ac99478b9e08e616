"""Bandwidth sharing on links: strict priority between levels, max-min fair within one.

For many variants at a time: arrays (rows, B), each variant's rows in the order of its levels.
Max-min by progressive filling (Bertsekas and Gallager, Data Networks, 6.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.problem import Floats, Ints
from hostcc.schedule.simulation_rows import SimulationRows

Number = TypeVar("Number", np.float64, np.int64)

MAX_BLOCK_VARIANTS = 256
"""Variants up to which all rows of a block are served at once, padding included."""
SHARE_TOLERANCE = 1 + 1e-12
"""Shares within this ratio count as equal."""


@dataclass(frozen=True)
class Block:
    """Consecutive rows that have to be filled together."""

    rows: tuple[int, ...]
    hops: tuple[tuple[int, ...], ...]
    """Per row: which of its H links occur in any variant."""
    simple: bool
    """No two rows meet in any variant, so each row just takes what is left."""
    levels: tuple[int, ...]
    """Levels of its rows, if some variant has several in it."""


@dataclass(frozen=True)
class Sharing:
    """Rows of B variants: J jobs by level, W rows each, R = J W."""

    size: Floats
    """(R, B) bytes."""
    cap: Floats
    weight: Floats
    level: Ints
    """(R, B)."""
    link: Ints
    """(R, H, B) index into the first axis of `capacity`."""
    place: Ints
    """(R, H, B) flat index into `capacity` (C + 1, B); the last link is unlimited."""
    capacity: Floats
    blocks: tuple[Block, ...]

    @staticmethod
    def build(rows: Sequence[SimulationRows], orders: Sequence[Ints], level: Ints) -> Sharing:
        """Return the sharing of rows[g] for the variants orders[g] (variants, J).

        `level` (J, B) is by place in the order.
        """
        width = max(one.size.shape[1] for one in rows)
        hops = max(one.links.shape[2] for one in rows)
        most = max(len(one.capacity) for one in rows)
        jobs = len(level)
        size, cap, weight = (
            _stack([_padded(getattr(one, name), jobs, width, fill) for one in rows], orders)
            for name, fill in (("size", 0.0), ("cap", 1.0), ("weight", 1.0))
        )
        links = [np.full((jobs, width, hops), -1, np.int64) for _ in rows]
        for one, wide in zip(rows, links, strict=True):
            wide[: len(one.links), : one.links.shape[1], : one.links.shape[2]] = one.links
        stacked = _stack(links, orders)
        count = stacked.shape[-1]
        stacked = np.where(stacked < 0, most, stacked).reshape(-1, hops, count)
        capacity = np.full((most + 1, count), np.inf)
        first = 0
        for one, order in zip(rows, orders, strict=True):
            capacity[: len(one.capacity), first : first + len(order)] = one.capacity[:, None]
            first += len(order)
        return Sharing(
            size,
            cap,
            weight,
            np.repeat(level, width, axis=0),
            stacked,
            stacked * count + np.arange(count),
            capacity,
            _blocks(level, size > 0, stacked, most, width),
        )

    def kept(self, which: Ints) -> Sharing:
        """Return only some of the variants, by index."""
        links = self.link[:, :, which]
        left = len(which)
        return Sharing(
            np.ascontiguousarray(self.size[:, which]),
            np.ascontiguousarray(self.cap[:, which]),
            np.ascontiguousarray(self.weight[:, which]),
            np.ascontiguousarray(self.level[:, which]),
            links,
            links * left + np.arange(left),
            np.ascontiguousarray(self.capacity[:, which]),
            self.blocks,
        )

    def rates(self, active: NDArray[np.bool_]) -> Floats:
        """Return (R, B) bytes/s of the active rows. The caller must allow division by 0."""
        rates = np.zeros(active.shape)
        left = self.capacity.copy().reshape(-1)
        for block in self.blocks:
            if block.simple:
                self._take(block, active, left, rates)
            else:
                self._fill(block, active, left, rates)
        return rates

    def _take(self, block: Block, active: NDArray[np.bool_], left: Floats, rates: Floats) -> None:
        if active.shape[1] <= MAX_BLOCK_VARIANTS:
            rows = slice(block.rows[0], block.rows[-1] + 1)
            place = self.place[rows]
            free = left.take(place, mode="clip")
            rate = rates[rows]
            np.multiply(self.cap[rows], active[rows], out=rate)
            np.minimum(rate, free.min(axis=1), out=rate)
            # Rows that do not meet have only the unlimited link in common.
            left[place] = free - rate[:, None]
            return
        for row, hops in zip(block.rows, block.hops, strict=True):
            rate = rates[row]
            np.multiply(self.cap[row], active[row], out=rate)
            found = []
            for hop in hops:
                # mode: the places are known to be right, checking them costs as much again
                free = left.take(self.place[row, hop], mode="clip")
                np.minimum(rate, free, out=rate)
                found.append(free)
            for hop, free in zip(hops, found, strict=True):
                left[self.place[row, hop]] = free - rate

    def _fill(self, block: Block, active: NDArray[np.bool_], left: Floats, rates: Floats) -> None:
        rows = slice(block.rows[0], block.rows[-1] + 1)
        for level in block.levels or (None,):
            open_rows = active[rows].copy()
            if level is not None:
                open_rows &= self.level[rows] == level
            while open_rows.any():
                self._round(rows, open_rows, left, rates)

    def _round(
        self, rows: slice, open_rows: NDArray[np.bool_], left: Floats, rates: Floats
    ) -> None:
        """Settle the rows with the least share, and those that reach their own limit."""
        place = self.place[rows]
        weight = np.where(open_rows, self.weight[rows], 0.0)
        share = left / self._on_links(place, weight, len(left))
        limit = self.cap[rows] / self.weight[rows]
        most = np.minimum(limit, share.take(place, mode="clip").min(axis=1))
        most[~open_rows] = np.inf
        settled = open_rows & ((most <= most.min(axis=0) * SHARE_TOLERANCE) | (most >= limit))
        given = np.where(settled, most, 0.0) * weight
        rates[rows] += given
        left -= self._on_links(place, given, len(left))
        np.maximum(left, 0.0, out=left)
        open_rows &= ~settled

    @staticmethod
    def _on_links(place: Ints, each: Floats, links: int) -> Floats:
        """Return (links,) the sums of what the rows (R, B) put on each link."""
        spread = each.repeat(place.shape[1], axis=0).ravel()
        return np.asarray(np.bincount(place.ravel(), spread, links))


def _padded(array: Floats, jobs: int, width: int, fill: float) -> Floats:
    wide = np.full((jobs, width), fill)
    wide[: len(array), : array.shape[1]] = array
    return wide


def _stack(parts: Sequence[NDArray[Number]], orders: Sequence[Ints]) -> NDArray[Number]:
    """Turn per-group arrays (J, W, ...) into (J W ..., B), each variant's jobs in its order."""
    whole = np.concatenate([part[order] for part, order in zip(parts, orders, strict=True)])
    whole = np.moveaxis(whole, 0, -1)
    return np.ascontiguousarray(whole.reshape(whole.shape[0] * whole.shape[1], *whole.shape[2:]))


def _blocks(
    level: Ints, there: NDArray[np.bool_], links: Ints, dummy: int, width: int
) -> tuple[Block, ...]:
    jobs = len(level)
    apart = [bool((level[job - 1] < level[job]).all()) for job in range(1, jobs)]
    blocks = []
    first = 0
    for job in range(1, jobs + 1):
        if job < jobs and not apart[job - 1]:
            continue
        rows = [row for row in range(first * width, job * width) if there[row].any()]
        if rows:
            rows = list(range(rows[0], rows[-1] + 1))
            hops = tuple(
                tuple(h for h in range(links.shape[1]) if (links[row, h] != dummy).any())
                for row in rows
            )
            several = bool((level[first] != level[job - 1]).any())
            inside = tuple(np.unique(level[first:job]).tolist()) if several else ()
            meet = _meet(links[rows], dummy)
            blocks.append(Block(tuple(rows), hops, not meet, inside))
        first = job
    return tuple(blocks)


def _meet(links: Ints, dummy: int) -> bool:
    """Return whether two of these rows (R, H, B) share a link in some variant."""
    for row in range(1, len(links)):
        for other in range(row):
            same = links[row][:, None] == links[other][None, :]
            if (same & (links[row][:, None] != dummy)).any():
                return True
    return False
