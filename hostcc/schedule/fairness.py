"""Trades the cluster's throughput against the loss of single jobs (Crux, section 7.2)."""

from __future__ import annotations

import numpy as np

from hostcc.schedule.errors import OptionsError
from hostcc.schedule.order import Losses
from hostcc.schedule.problem import Floats, Ints


def worth(work: Floats, weight: Floats, slowdown: Floats, fairness: float) -> Floats:
    """Return the value (J,) of an iteration: W * weight * slowdown^fairness. Raises OptionsError.

    `fairness` 0: throughput alone counts. `slowdown`: the recent iteration time over that alone.
    """
    if not 0 <= fairness <= 10:
        raise OptionsError(f"fairness: expected a number from 0 to 10, got {fairness}")
    return np.asarray(work * weight * slowdown**fairness)


def speeds(rank: Ints, found: Losses, rounds: int = 24) -> Floats:
    """Return (J,) predicted iterations per second relative to alone, by the pairwise model."""
    under = rank[found.other] < rank[found.one]
    one = np.concatenate([found.one[under], found.other[~under]])
    other = np.concatenate([found.other[under], found.one[~under]])
    loss = np.concatenate([found.one_below[under], found.other_below[~under]])
    speed = np.ones(len(rank))
    for _ in range(rounds):
        speed = 1 / (1 + np.bincount(one, loss * speed[other], len(rank)))
    return speed


def limit_loss(rank: Ints, found: Losses, most_loss: float) -> Ints:
    """Return ranks under which no job is predicted to lose more than `most_loss` of its speed.

    If that is impossible, as few jobs as can be lose more. The job that loses most repeatedly moves
    above one contender. Raises OptionsError.
    """
    if not 0 <= most_loss <= 1:
        raise OptionsError(f"most_loss: expected a fraction from 0 to 1, got {most_loss}")
    position = rank.astype(np.float64)
    moves = np.zeros(len(rank), np.int64)
    best, least = rank, np.inf
    for _ in range(4 * len(rank)):
        current = _ranks(position)
        speed = speeds(current, found)
        lost = np.maximum(1 - speed - most_loss, 0.0)
        if lost.sum() < least:
            best, least = current, float(lost.sum())
        able = (lost > 1e-9) & (moves < 8)
        if not able.any():
            break
        job = int(np.argmax(np.where(able, lost, -1.0)))
        over = np.concatenate([found.other[found.one == job], found.one[found.other == job]])
        over = over[current[over] < current[job]]
        if not len(over):
            break
        position = current.astype(np.float64)
        position[job] = current[over].max() - 0.5
        moves[job] += 1
    return best


def _ranks(position: Floats) -> Ints:
    rank = np.empty(len(position), np.int64)
    rank[np.argsort(position, kind="stable")] = np.arange(len(position))
    return rank
