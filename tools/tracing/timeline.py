"""Iterations out of bytes per time bin, and lanes of characters to show them.  Pure.

An iteration begins when a job sends after silence.  The silence that counts is half of the
usual longest pause, so that pauses between the bursts of one iteration do not: the rule of
docs/internals/mltcp.md, applied to what was seen on the wire.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
MIN_SILENCE_S = 0.002
MIN_BYTES = 65536
"""Less than this between two pauses is not an iteration (HCC_MIN_ITERATION_BYTES)."""
PAUSES = 32
"""Pauses that are remembered."""
LEVELS = " .:-=+*#"


@dataclass(frozen=True)
class Iteration:
    """One iteration of one job; times in seconds."""

    number: int
    start_s: float
    end_s: float
    bytes: int
    period_s: float | None
    """Start to start, from the iteration before; None for the first."""

    @property
    def communication_s(self) -> float:
        """From the first acknowledgement to the last."""
        return self.end_s - self.start_s


class Segmenter:
    """Cuts one job's traffic into iterations."""

    def __init__(
        self, bin_s: float, silence_s: float | None = None, min_bytes: int = MIN_BYTES
    ) -> None:
        self._bin_s = bin_s
        self._given = silence_s
        self._min_bytes = min_bytes
        self._floor = max(MIN_SILENCE_S, 2 * bin_s)
        self._pauses: deque[float] = deque(maxlen=PAUSES)
        self._open: tuple[float, float, int] | None = None
        self._last_start: float | None = None
        self._last_end: float | None = None
        self._busy = False
        self._number = 0

    @property
    def silence_s(self) -> float:
        """Silence that ends an iteration: given, or half of the second longest late pause.

        The second longest: a pause that came only once is a checkpoint.
        """
        if self._given is not None:
            return self._given
        longest = sorted(self._pauses)[-2:]
        return max(self._floor, longest[0] / 2) if longest else self._floor

    def feed(self, at_s: Floats, sizes: Ints, busy: Ints) -> list[Iteration]:
        """Take bins, ascending; returns the iterations that they end.

        `at_s`: starts (s); `sizes`: bytes; `busy`: sockets that had more to send or to be
        acknowledged at the end of each bin.
        """
        if not len(at_s):
            return []
        done: list[Iteration] = []
        pauses = (np.diff(at_s) - self._bin_s >= self._floor) & (busy[:-1] == 0)
        cuts = np.flatnonzero(pauses) + 1
        for rows in np.split(np.arange(len(at_s)), cuts):
            first, last = rows[0], rows[-1]
            end = float(at_s[last]) + self._bin_s
            done += self._burst(float(at_s[first]), end, int(sizes[rows].sum()))
            self._busy = bool(busy[last])
        return done

    def idle(self, now_s: float) -> list[Iteration]:
        """The open iteration, if by now the job has been silent for long enough."""
        known = self._given is not None or len(self._pauses) > 1
        if self._open is None or self._busy or not known:
            return []
        return self._close() if now_s - self._open[1] >= self.silence_s else []

    def _burst(self, start: float, end: float, count: int) -> list[Iteration]:
        done: list[Iteration] = []
        if self._last_end is not None and not self._busy and start - self._last_end >= self._floor:
            self._pauses.append(start - self._last_end)
        if self._open is not None:
            if self._busy or start - self._open[1] < self.silence_s:
                start, count = self._open[0], self._open[2] + count
            else:
                done = self._close()
        self._open = (start, end, count)
        self._last_end = end
        return done

    def _close(self) -> list[Iteration]:
        assert self._open is not None
        start, end, count = self._open
        self._open = None
        if count < self._min_bytes:
            return []
        period = None if self._last_start is None else start - self._last_start
        self._last_start = start
        self._number += 1
        return [Iteration(self._number, start, end, count, period)]


def cells(at_s: Floats, sizes: Floats, start_s: float, end_s: float, width: int) -> Floats:
    """Bytes in each of `width` equal parts of [start_s, end_s)."""
    return np.histogram(at_s, bins=width, range=(start_s, end_s), weights=sizes)[0].astype(float)


def lane(amounts: Floats, peak: float) -> str:
    """One character a cell, fuller for more; anything above zero can be seen."""
    if peak <= 0:
        return LEVELS[0] * len(amounts)
    top = len(LEVELS) - 1
    level = np.clip(np.ceil(amounts / peak * top), 0, top).astype(int)
    return "".join(LEVELS[i] for i in level)
