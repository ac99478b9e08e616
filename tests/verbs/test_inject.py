"""What `hostcc run --rdma` puts into a job's environment."""

from __future__ import annotations

import pytest

from hostcc.errors import InputError
from hostcc.verbs import inject
from hostcc.verbs.build import NCCL_ENV, SHIM

pytestmark = pytest.mark.unit


def test_what_was_there_stays() -> None:
    made = inject.environment("job", {"LD_PRELOAD": "a.so b.so:c.so", "PATH": "/bin"})
    assert made["LD_PRELOAD"] == f"{SHIM.target}:a.so:b.so:c.so"
    assert (made["HOSTCC_JOB"], made["PATH"]) == ("job", "/bin")
    assert made["NCCL_ENV_PLUGIN"] == str(NCCL_ENV.target)
    assert inject.environment("job", made) == made  # a job within a job


@pytest.mark.parametrize(
    ("before", "plugin", "behind"),
    [
        ({}, str(NCCL_ENV.target), None),
        ({"NCCL_ENV_PLUGIN": ""}, str(NCCL_ENV.target), None),
        ({"NCCL_ENV_PLUGIN": "mine"}, str(NCCL_ENV.target), "mine"),
        ({"NCCL_ENV_PLUGIN": str(NCCL_ENV.target)}, str(NCCL_ENV.target), None),
        ({"NCCL_ENV_PLUGIN": "a", "HOSTCC_NCCL_ENV_PLUGIN": "b"}, str(NCCL_ENV.target), "b"),
        ({"NCCL_ENV_PLUGIN": "None"}, "None", None),
    ],
)
def test_the_jobs_own_plugin_stays_behind_ours(
    before: dict[str, str], plugin: str, behind: str | None
) -> None:
    made = inject.environment("job", before)
    assert made["NCCL_ENV_PLUGIN"] == plugin
    assert made.get("HOSTCC_NCCL_ENV_PLUGIN") == behind
    assert inject.environment("job", made) == made  # a job within a job


def test_where_the_agents_memory_is() -> None:
    told = {"HOSTCC_RDMA_PLAN": "/dev/shm/p", "LD_PRELOAD": "/evil.so", "HOSTCC_RDMA_COUNTS": "x"}
    made = inject.environment("job", {}, told)
    assert made["HOSTCC_RDMA_PLAN"] == "/dev/shm/p"
    assert made["LD_PRELOAD"] == str(SHIM.target)  # only what is known, and only paths
    assert "HOSTCC_RDMA_COUNTS" not in made


def test_a_bad_name_is_refused() -> None:
    with pytest.raises(InputError):
        inject.environment("a b", {})
