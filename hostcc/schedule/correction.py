"""Computes Crux's correction factor k (SIGCOMM'24, section 4.2): P = k I.

Two jobs of equal intensity are compared by simulating both priority orders on one link for a time
T. Job j against the reference job r: the orders give them (N_r', N_j') seconds of network time with
j first, and (N_r, N_j) with r first. Then k_j = (N_j' - N_j) / (N_r - N_r'). Example 1 of the
paper: (6, 3) and (4, 6) give 3 / 2 = 1.5.

Choices that the paper leaves open: both jobs are ready to communicate at time 0. T is 6 of the
longer iteration unless given. k is 1 where nothing changes (0 / 0), and is clipped to a range. All
jobs are compared with the reference, whether they contend or not. The reference is the job with the
most traffic, the first by name among equals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule.problem import Floats

HORIZON_PERIODS = 6.0
"""T in iterations of the longer job; the paper's Example 1 uses 3, Example 2 uses 2.4."""
K_MIN, K_MAX = 0.5, 2.0
EPS_S = 1e-9


@dataclass(frozen=True)
class ServiceTime:
    """Seconds of network and of computing time that each job received, (N,)."""

    network: Floats
    computing: Floats


def play(
    compute: Floats, start: Floats, comm: Floats, duration: Floats
) -> tuple[ServiceTime, ServiceTime]:
    """Simulate N pairs of jobs on one link with strict priority: row 0 of each (2, N) before row 1.

    Both jobs are ready to communicate at 0. `compute`: seconds of computation per iteration,
    `start`: of these before communication, `comm`: seconds alone on the link, `duration`: (N,)
    seconds to simulate.
    """
    shape = compute.shape
    now = np.zeros(shape[1])
    left = np.array(comm, np.float64)
    sending = np.ones(shape, np.bool_)
    compute_end = compute - start
    comm_at = np.zeros(shape)
    network = np.zeros(shape)
    computing = np.minimum(np.maximum(compute_end, 0.0), duration)
    while (now < duration - EPS_S).any():
        active = sending & (left > EPS_S)
        served = active & np.stack([np.ones(shape[1], np.bool_), ~active[0]])
        timer = np.where(sending, np.where(active, np.inf, compute_end), comm_at)
        timer = np.where(served, now + left, timer)
        step = np.minimum(np.maximum(timer.min(axis=0), now), duration) - now
        end, now = now + left, now + step
        network += np.where(served, step, 0.0)
        left -= np.where(served, step, 0.0)
        # After years a rest may be too small to be added to the time.
        left = np.where(served & (end <= now), 0.0, left)
        ends = sending & (left <= EPS_S) & (compute_end <= now + EPS_S) & (now < duration - EPS_S)
        computing += np.where(ends, np.minimum(compute, duration - now), 0.0)
        compute_end = np.where(ends, now + compute, compute_end)
        comm_at = np.where(ends, now + start, comm_at)
        starts = (ends | ~sending) & (comm_at <= now + EPS_S)
        left = np.where(starts, comm, left)
        sending = (sending & ~ends) | starts
    return ServiceTime(network[0], computing[0]), ServiceTime(network[1], computing[1])


def correction(
    compute: Floats, start: Floats, comm: Floats, reference: int, duration: float | None = None
) -> Floats:
    """Return k (J,), a pure number, of every job against job `reference`; times in seconds.

    The reference has 1, and so have jobs without traffic or without any time in an iteration.
    """
    count = len(compute)
    k = np.ones(count)
    usable = (comm > EPS_S) & (np.maximum(compute, start + comm) > EPS_S)
    others = np.flatnonzero(usable & (np.arange(count) != reference))
    if not len(others) or not usable[reference]:
        return k
    both = [np.full(len(others), reference), others]
    period = np.maximum(compute, start + comm)
    if duration is None:
        horizon = HORIZON_PERIODS * np.maximum(period[reference], period[others])
        # Very unequal jobs: as many iterations of the shorter as can tell them apart.
        horizon = np.minimum(horizon, 200 * np.minimum(period[reference], period[others]))
    else:
        horizon = np.full(len(others), duration)
    first = play(compute[both], start[both], comm[both], horizon)
    swapped = both[::-1]
    other = play(compute[swapped], start[swapped], comm[swapped], horizon)
    gain = other[0].network - first[1].network
    loss = first[0].network - other[1].network
    ratio = np.divide(gain, loss, out=np.ones(len(others)), where=loss > EPS_S)
    ratio[(loss <= EPS_S) & (gain > EPS_S)] = K_MAX
    k[others] = np.clip(ratio, K_MIN, K_MAX)
    return k


def reference_job(traffic: Floats) -> int:
    """Return the job with the most traffic (bytes per iteration), the first among equals."""
    return int(np.argmax(traffic)) if len(traffic) else 0
