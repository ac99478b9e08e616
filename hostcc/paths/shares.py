"""Holds a flow to its share of a link, by a pace or by a bound of its window.  Pure.

A window of rate times RTT carries the rate; a pace spreads it evenly.  Both only hold back: they
never give a flow more than congestion control would.  hostcc.daemon.marking.rate_shares chooses
the shares.
"""

from __future__ import annotations

import math
from enum import StrEnum

from hostcc.paths.mark_kernel import JobMark

MAX_PACE_BPS = (1 << 32) - 2
"""bpf_setsockopt takes 32 bits: 4.29 GB/s a connection."""
MIN_WINDOW_PACKETS = 4


class Hold(StrEnum):
    """Means of holding a flow to its share."""

    OFF = "off"
    PACE = "pace"
    WINDOW = "window"


def held(mark: JobMark, how: Hold, job_bps: float, flows: int, rtt_s: float, mss: int) -> JobMark:
    """`mark` with the share of each of a job's `flows` that leave this host, in bytes/s.

    `rtt_s` is the flow's least RTT and `mss` its segment, for the window; a share that cannot
    be expressed holds nothing.
    """
    if how is Hold.OFF or flows <= 0 or job_bps <= 0:
        return mark
    share = job_bps / flows
    if how is Hold.PACE:
        if share > MAX_PACE_BPS:
            return mark
        return JobMark(mark.tos, mark.force, share, None)
    if rtt_s <= 0 or mss <= 0:
        return mark
    window = max(MIN_WINDOW_PACKETS, math.ceil(share * rtt_s / mss))
    return JobMark(mark.tos, mark.force, None, window)
