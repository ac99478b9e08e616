"""Profiles of jobs that send by RDMA, of which sockets show little or nothing.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hostcc.model import JobProfile
from hostcc.schedule.assumed_work import job_work

SOCKET_DOMINANCE = 2.0
"""A guess from sockets counts where they carry more than this many times the bytes of RDMA."""
UNKNOWN_PERIOD_S = 1.0
"""Taken for the iteration of a job of which none was measured."""

RdmaRates = Mapping[str, Mapping[str, float]]
"""Job -> destination -> bytes per second that its queue pairs send."""


def period_s(profile: JobProfile | None) -> float:
    """Return the length of an iteration, or UNKNOWN_PERIOD_S."""
    return profile.period_s if profile is not None and profile.period_s else UNKNOWN_PERIOD_S


def assumed(job: str, measured: JobProfile | None, weight: float) -> JobProfile:
    """Return what to plan by: what was measured, and guesses for what was not."""
    known = measured or _unmeasured(job)
    rates = [known.assumed_flop_per_s]
    work, how = job_work([known.work], known.compute_s, period_s(measured), rates)
    return JobProfile(
        job, known.compute_s, min(known.comm_start_s, known.compute_s), work,
        max(1.0, known.gpus), weight=weight, assumed=how,
    )  # fmt: skip


def _unmeasured(job: str) -> JobProfile:
    return JobProfile(job, UNKNOWN_PERIOD_S, 0.0, 0.0, 1.0)


def informative(measured: Iterable[JobProfile], rdma: RdmaRates) -> list[JobProfile]:
    """Drop guesses from sockets that say nothing of the iterations of a job that sends by RDMA.

    Sockets that only keep processes in step come and go as they like, and software RDMA is seen
    twice, by its queue pairs and as packets: a guess counts only if it is clearly of more bytes.
    """

    def counts(one: JobProfile) -> bool:
        if one.confidence > 0 or one.work or one.job not in rdma:
            return True
        by_sockets = one.tx_bytes / one.period_s if one.period_s else 0.0
        return by_sockets > SOCKET_DOMINANCE * sum(rdma[one.job].values())

    return [one for one in measured if counts(one)]


def merged(
    measured: Iterable[JobProfile], rdma: RdmaRates, weights: Mapping[str, float]
) -> list[JobProfile]:
    """Complete what was measured with guesses of jobs that send by RDMA.

    A job of which nothing was measured has a confidence of 0. Work that is unknown stays 0: it is
    assumed where the records of all hosts of the job are merged.
    """
    made = informative(measured, rdma)
    guessed = rdma.keys() - {one.job for one in made}
    return made + [
        replace(
            _unmeasured(job), weight=weights.get(job, 1.0),
            period_s=UNKNOWN_PERIOD_S, confidence=0.0,
            bytes_to=tuple((to, rate * UNKNOWN_PERIOD_S) for to, rate in sorted(rdma[job].items())),
        )
        for job in sorted(guessed)
    ]  # fmt: skip
