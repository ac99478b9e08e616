"""Stable orders of whole numbers, several times faster than numpy's argsort of 64 bits.

numpy sorts 16 bits by radix; so two or three passes sort what keys of pairs and links need.
"""

from __future__ import annotations

import numpy as np

from hostcc.schedule.problem import Ints

FEW = 1500
"""Keys up to which one comparing sort is faster."""
DIGIT = 16


def order(key: Ints) -> Ints:
    """What np.argsort(key, kind="stable") gives, for numbers of at least 0."""
    if len(key) <= FEW:
        return np.argsort(key, kind="stable")
    by = np.argsort(key.astype(np.uint16), kind="stable")
    top = int(key.max()) >> DIGIT
    while top:
        key = key >> DIGIT
        by = by[np.argsort(key.astype(np.uint16)[by], kind="stable")]
        top >>= DIGIT
    return by


def unique(key: Ints) -> tuple[Ints, Ints]:
    """What np.unique(key, return_inverse=True) gives, for numbers of at least 0."""
    by = order(key)
    ordered = key[by]
    first = np.empty(len(key), np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    where = np.empty(len(key), np.int64)
    where[by] = np.cumsum(first) - 1
    return ordered[first], where
