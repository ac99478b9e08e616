"""Which queue a round trip was spent in, from the peer's time stamps.  Pure.

A TCP peer writes its clock into each segment (RFC 7323, TSval; Linux ticks once a millisecond).
The first acknowledgement after a tick left within one packet's spacing of it.  So its arrival, less
the tick, is the delay of the way back, up to a constant; what is above the least of these was spent
in queues there.  The rest of the round trip above its least was spent in queues on the way there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
TICK_S = 0.001
MIN_TICKS = 10
"""Fewer say nothing."""


@dataclass(frozen=True)
class Segments:
    """Segments of one connection in one direction, where they were seen; arrays of one length."""

    at_s: Floats
    end: Integers
    """Sequence number after its last byte."""
    size: Integers
    """Payload, bytes."""
    ack: Integers
    tsval: Integers
    number: Integers
    """Tells apart segments that are equal otherwise (IPv4 identification)."""


@dataclass(frozen=True)
class Queues:
    """Queueing delays at each tick of the peer's clock, seconds; arrays of one length."""

    at_s: Floats
    round_trip_s: Floats
    """In both directions: the round trip above the least one so far."""
    there_s: Floats
    """On the way of the data, by the time stamps."""


def round_trips(sent: Segments, acks: Segments) -> tuple[Integers, Integers]:
    """Pair acknowledgements with the data that they acknowledge.

    Returns indices into `acks` and `sent`.  Data that was sent twice is left out (Karn): nobody
    knows which of both an acknowledgement is for.
    """
    data = np.flatnonzero(sent.size > 0)
    origin = sent.end[data[:1]].sum()
    end, ack = _since(origin, sent.end), _since(origin, acks.ack)
    ends, counts = np.unique(end[data], return_counts=True)
    once = ends[counts == 1]
    newest = np.maximum.accumulate(ack)
    advances = np.diff(newest, prepend=newest[:1] - 1) > 0
    which = np.flatnonzero(advances & np.isin(ack, once))
    order = data[np.argsort(end[data], kind="stable")]
    return which, order[np.searchsorted(end[order], ack[which])]


def _since(origin: np.int64, numbers: Integers) -> Integers:
    """Sequence numbers from one on, in its half of the circle of 2^32."""
    return (numbers - origin + (1 << 31)) % (1 << 32) - (1 << 31)


def queues(sent: Segments, acks: Segments) -> tuple[Queues, Integers]:
    """Tell the queue there from the one back, at each tick; and the data whose round trip it is.

    Both are compared with the least so far, as the sender could at that moment.  Returns the
    queues and indices into `sent`.  Empty with fewer than MIN_TICKS ticks.
    """
    which, data = round_trips(sent, acks)
    took_s = acks.at_s[which] - sent.at_s[data]
    newest = np.maximum.accumulate(acks.tsval)
    ticks = np.isin(which, np.flatnonzero(np.diff(newest, prepend=newest[:1]) > 0))
    if np.count_nonzero(ticks) < MIN_TICKS:
        return Queues(*(np.empty(0) for _ in range(3))), np.empty(0, np.int64)
    round_trip_s = (took_s - np.minimum.accumulate(took_s))[ticks]
    first = which[ticks]
    back_s = acks.at_s[first] - acks.tsval[first] * TICK_S
    back_s -= np.minimum.accumulate(back_s)
    there_s = np.maximum(0.0, round_trip_s - back_s)
    return Queues(acks.at_s[first], round_trip_s, there_s), data[ticks]


def true_delays(sent: Segments, seen: Segments) -> Floats:
    """Return how long each segment was under way, seconds; NaN: it was not seen at its peer."""
    if not len(seen.at_s):
        return np.full(len(sent.at_s), np.nan)
    key = seen.number * (1 << 33) + seen.end
    order = np.argsort(key, kind="stable")
    wanted = sent.number * (1 << 33) + sent.end
    at = np.minimum(np.searchsorted(key[order], wanted), len(key) - 1)
    found = order[at]
    delays: Floats = np.where(key[found] == wanted, seen.at_s[found] - sent.at_s, np.nan)
    return delays
