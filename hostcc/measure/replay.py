"""A recorded series analysed as if it were new: the same file gives the same figures."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from hostcc.errors import InputError
from hostcc.measure.measured_profile import Link, MeasuredProfile, assemble
from hostcc.measure.period import detect
from hostcc.measure.series import ByteSeries
from hostcc.measure.series_file import Meta, Recording
from hostcc.measure.work import Activity


def analyse(recording: Recording) -> MeasuredProfile:
    """The profile of a recorded job.

    Of several links nobody knows any more which bytes took which, so t is of one link only.
    """
    links = [Link(name, speed) for name, speed in recording.meta.links.items()]
    return assemble(
        recording.meta.job,
        recording.series,
        detect(recording.series),
        links=links if len(links) == 1 else (),
        activity=recording.activity,
        flop=recording.meta.flop,
    )


def received(job: str, host: str, answer: Mapping[str, Any]) -> Recording:
    """The recording in an agent's answer (hostcc.profile/1).  Raises InputError."""
    try:
        known = {key: answer[key] for key in ("bin_ns", "start_ns", "links", "flop")}
        meta = msgspec.convert({"job": job, "host": host, **known}, Meta)
        tx, rx = (_unpacked(answer[key], "<i8").astype(np.int64) for key in ("tx", "rx"))
        busy = [
            _unpacked(answer[key], "<f8").astype(np.float64)
            for key in ("busy_start_s", "busy_end_s", "busy")
        ]
        series = ByteSeries(meta.bin_ns, meta.start_ns, tx, rx)
    except (KeyError, ValueError, TypeError, binascii.Error) as error:
        raise InputError(f"the agent's answer: expected a recording, got {error}") from error
    return Recording(meta, series, Activity(*busy) if len(busy[0]) else None)


def _unpacked(text: str, kind: str) -> np.ndarray[tuple[int], np.dtype[Any]]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind)
