"""Stable sorting of non-negative integers, several times faster than numpy's 64-bit argsort.

numpy sorts 16-bit keys by radix; two or three passes sort the keys of pairs and links.
"""

from __future__ import annotations

import numpy as np

from hostcc.schedule.problem import Ints

MAX_COMPARISON_KEYS = 1500
"""Keys up to which one comparison sort is faster."""
DIGIT_BITS = 16


def order(key: Ints) -> Ints:
    """Return np.argsort(key, kind="stable") of non-negative integers."""
    if len(key) <= MAX_COMPARISON_KEYS:
        return np.argsort(key, kind="stable")
    by = np.argsort(key.astype(np.uint16), kind="stable")
    for shift in range(DIGIT_BITS, int(key.max()).bit_length(), DIGIT_BITS):
        digit = (key >> shift).astype(np.uint16)[by]
        by = by[np.argsort(digit, kind="stable")]
    return by


def unique(key: Ints) -> tuple[Ints, Ints]:
    """Return np.unique(key, return_inverse=True) of non-negative integers."""
    by = order(key)
    ordered = key[by]
    first = np.empty(len(key), np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    where = np.empty(len(key), np.int64)
    where[by] = np.cumsum(first) - 1
    return ordered[first], where


def distinct(key: Ints) -> Ints:
    """Return np.unique(key), which without other results loads numpy.ma: more than a megabyte."""
    ordered = np.sort(key)
    first = np.ones(len(key), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
