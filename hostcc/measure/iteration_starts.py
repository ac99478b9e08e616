"""Iterations out of a job's bytes over time: the same way in every mode.

The kernel counts iterations only of sockets that run hostcc's congestion control.  Whoever compares
modes has to measure them alike, so this looks at nothing but bytes.
"""

from __future__ import annotations

import numpy as np

from hostcc.measure.series import NS, ByteSeries, Floats

SILENT_SHARE = 0.05
"""A bin is silent below this share of the mean of those that are not empty."""
SEARCH_SHARE, SEARCH_STEPS = 0.1, 2001
"""The bytes of an iteration are looked for within this share of the profile's, in so many steps:
what is sent again comes on top, and depends on the mode."""
MOST_SILENCES = 500
"""Silent bins that are looked at, so that an hour's takes no longer than a minute's."""
PHASES = 64
"""Parts of an iteration's bytes."""
NEIGHBOURS = 8
"""Parts to either side that count when the one farthest from silence is chosen."""


def iteration_marks(series: ByteSeries, bytes_per_iteration: float) -> Floats:
    """Return a moment of each iteration, always the same one, seconds on the series' clock.

    `bytes_per_iteration`: in the direction with more bytes, about as the profile has it.  The
    moment is where the iteration has sent so many bytes as are farthest from any of its silences;
    these are followed where iterations send more or less than others.
    Shape (n,), ascending; empty with less than an iteration.
    """
    chosen = series.tx if series.tx.sum() >= series.rx.sum() else series.rx
    values = chosen.astype(np.float64)
    total = float(values.sum())
    if bytes_per_iteration <= 0 or total < bytes_per_iteration:
        return np.empty(0)
    so_far = np.concatenate(([0.0], np.cumsum(values)))
    silent = values < SILENT_SHARE * values[values > 0].mean()
    at = (so_far[:-1] + so_far[1:])[silent] / 2
    size = _refined(at, bytes_per_iteration) if len(at) else bytes_per_iteration
    phases = at / size
    drift = _drift(phases, int(total / size) + 1)
    level = _farthest(np.mod(phases - drift[phases.astype(np.int64)], 1.0))
    marks = (np.arange(len(drift)) + level + drift) * size
    edges = series.start_ns / NS + np.arange(len(so_far)) * series.bin_s
    return np.asarray(np.interp(marks[(marks > 0) & (marks < total)], so_far, edges), np.float64)


def _refined(silences: Floats, size: float) -> float:
    # The size with which silences come after the same share of an iteration's bytes each time.
    silences = silences[:: max(1, len(silences) // MOST_SILENCES)]
    sizes = size * np.linspace(1 - SEARCH_SHARE, 1 + SEARCH_SHARE, SEARCH_STEPS)
    alike = np.abs(np.exp(2j * np.pi * silences[:, None] / sizes[None, :]).sum(axis=0))
    return float(sizes[int(np.argmax(alike))])


def _drift(phases: Floats, count: int) -> Floats:
    # By how much silences come late in each iteration, in iterations: what was sent again so far.
    sums = np.zeros(count, np.complex128)
    np.add.at(sums, phases.astype(np.int64), np.exp(2j * np.pi * phases))
    around = np.convolve(sums, (1, 1, 1), mode="same")
    silent = np.abs(around) > 0
    if not silent.any():
        return np.zeros(count)
    turns = np.unwrap(np.angle(around[silent])) / (2 * np.pi)
    late = np.interp(np.arange(count), np.flatnonzero(silent), turns)
    return np.asarray(late - late[0], np.float64)


def _farthest(phases: Floats) -> float:
    # The share of an iteration's bytes around which there is least silence.
    counts = np.bincount((phases * PHASES).astype(np.int64) % PHASES, minlength=PHASES)
    weights = NEIGHBOURS + 1 - np.abs(np.arange(-NEIGHBOURS, NEIGHBOURS + 1))
    around = np.concatenate((counts[-NEIGHBOURS:], counts, counts[:NEIGHBOURS]))
    quiet = np.convolve(around, weights, mode="valid")
    return (int(np.argmin(quiet)) + 0.5) / PHASES
