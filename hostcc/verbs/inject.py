"""The environment that brings the transport shim and NCCL's plugin into a job.  Pure.

For `hostcc run --rdma`: what the job's owner has set is kept, and ours comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hostcc.errors import HostccError, InputError
from hostcc.limits import JOB_NAME_WORDS, is_job_name
from hostcc.verbs.build import NCCL_ENV, SHIM


def environment(job: str, before: Mapping[str, str]) -> dict[str, str]:
    """`before` with what a job needs.  Raises InputError for a name that is none."""
    if not is_job_name(job):
        raise InputError(f"{job!r:.80}: expected {JOB_NAME_WORDS}")
    preload = [str(SHIM.target), *_words(before.get("LD_PRELOAD", ""))]
    return {
        **before,
        "HOSTCC_JOB": job,
        "LD_PRELOAD": ":".join(dict.fromkeys(preload)),
        "NCCL_ENV_PLUGIN": before.get("NCCL_ENV_PLUGIN") or str(NCCL_ENV.target),
    }


def check() -> None:
    """Are the libraries there?  Raises HostccError."""
    for library in (SHIM, NCCL_ENV):
        if not Path(library.target).exists():
            raise HostccError(f"{library.target} is missing; python -m hostcc.verbs.build")


def _words(preload: str) -> list[str]:
    """The entries of LD_PRELOAD: the loader takes spaces and colons for separators."""
    return preload.replace(":", " ").split()
