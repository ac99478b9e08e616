"""Makes the environment that loads the transport shim and NCCL's plugin into a job.  Pure.

For `hostcc run --rdma`: variables that the job's owner has set are kept, and ours come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hostcc.errors import HostccError, InputError
from hostcc.limits import JOB_NAME_WORDS, is_job_name
from hostcc.verbs.build import NCCL_ENV, SHIM

KEYS = ("HOSTCC_RDMA_PLAN", "HOSTCC_RDMA_COUNTS", "HOSTCC_PCIE_SEMAPHORES")
"""Variables that name the agent's shared memory."""
NEXT_PLUGIN = "HOSTCC_NCCL_ENV_PLUGIN"
"""Variable that names the environment plugin of NCCL's that the job has of its own."""


def environment(
    job: str, before: Mapping[str, str], told: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return `before` with what a job needs; `told`: the agent's values of KEYS.

    Raises InputError for an invalid job name.
    """
    if not is_job_name(job):
        raise InputError(f"{job!r:.80}: expected {JOB_NAME_WORDS}")
    preload = [str(SHIM.target), *_words(before.get("LD_PRELOAD", ""))]
    return {
        **before,
        **_nccl(before),
        **{key: value for key, value in (told or {}).items() if key in KEYS and _is_path(value)},
        "HOSTCC_JOB": job,
        "LD_PRELOAD": ":".join(dict.fromkeys(preload)),
    }


def _nccl(before: Mapping[str, str]) -> dict[str, str]:
    # NCCL loads one environment plugin: ours, which asks the job's own one behind it.  A job
    # that wants none gets none.
    own = before.get("NCCL_ENV_PLUGIN", "")
    if own.lower() == "none":
        return {}
    ours = str(NCCL_ENV.target)
    behind = {NEXT_PLUGIN: own} if own and own != ours and not before.get(NEXT_PLUGIN) else {}
    return {"NCCL_ENV_PLUGIN": ours, **behind}


def check() -> None:
    """Check that the libraries are there.  Raises HostccError."""
    for library in (SHIM, NCCL_ENV):
        if not Path(library.target).exists():
            raise HostccError(f"{library.target} is missing; run python -m hostcc.verbs.build")
        if _words(str(library.target)) != [str(library.target)]:
            raise HostccError(
                f"{library.target}: LD_PRELOAD takes no path with spaces or colons; "
                "install hostcc elsewhere"
            )


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and "\0" not in value


def _words(preload: str) -> list[str]:
    # The entries of LD_PRELOAD: the loader takes spaces and colons for separators.
    return preload.replace(":", " ").split()
