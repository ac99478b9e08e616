"""The specification for container runtimes: valid, and nothing in it that a job must not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest

import hostcc
from hostcc.errors import InputError
from hostcc.verbs import cdi, inject
from hostcc.verbs.build import NCCL_ENV, SHIM
from tests.kubernetes.device_interface import Edits, convert

pytestmark = pytest.mark.unit

PACKAGE = Path(hostcc.__file__).parent
PLACES = cdi.Places(
    files=PACKAGE,
    plan=PurePath("/dev/shm/hostcc/agent/plan"),
    counts=PurePath("/dev/shm/hostcc/jobs/qp"),
    semaphores=PurePath("/dev/shm/hostcc/agent/pcie"),
    marks="/run/hostcc/marks/socket",
    private=(PurePath("/run/hostcc"), PurePath("/run/hostcc/control.sock")),
)


def devices() -> dict[str, Edits]:
    return convert(cdi.specification(PLACES))


def variables(edits: Edits) -> dict[str, str]:
    return dict(one.split("=", 1) for one in edits.env)


def mounts(edits: Edits) -> dict[str, bool]:
    """Path -> whether it may be written; the same outside and inside."""
    assert all(one.host_path == one.container_path for one in edits.mounts)
    return {one.host_path: "ro" not in one.options for one in edits.mounts}


def test_a_runtime_accepts_it() -> None:
    assert set(devices()) == {f"hostcc.dev/job={name}" for name in ("rdma", "marks", "steps")}


def test_rdma_is_what_run_sets() -> None:
    edits = devices()["hostcc.dev/job=rdma"]
    told = {
        "HOSTCC_RDMA_PLAN": str(PLACES.plan),
        "HOSTCC_RDMA_COUNTS": str(PLACES.counts),
        "HOSTCC_PCIE_SEMAPHORES": str(PLACES.semaphores),
    }
    wanted = inject.environment("job", {}, told)
    del wanted["HOSTCC_JOB"]
    assert variables(edits) == wanted
    assert mounts(edits) == {
        str(SHIM.target): False,
        str(NCCL_ENV.target): False,
        "/dev/shm/hostcc/agent": False,
        "/dev/shm/hostcc/jobs": True,
    }


def test_marks_are_the_socket_alone() -> None:
    edits = devices()["hostcc.dev/job=marks"]
    assert variables(edits) == {"HOSTCC_MARK_SOCKET": PLACES.marks}
    assert mounts(edits) == {"/run/hostcc/marks": False}


def test_steps_are_counted_by_files_of_the_package() -> None:
    edits = devices()["hostcc.dev/job=steps"]
    assert variables(edits) == {
        "HOSTCC_MARK_SOCKET": PLACES.marks,
        "HOSTCC_MARK": "1",
        "PYTHONPATH": str(PACKAGE / "injob/site"),
    }
    assert set(mounts(edits).values()) == {False}
    assert all(Path(path).is_file() for path in mounts(edits) if path != "/run/hostcc/marks")


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("rdma.plan", {"plan": PurePath("/dev/shm/hostcc-rdma")}),
        ("rdma.counts", {"counts": PurePath("/dev/shm/hostcc-qp")}),
        ("rdma.counts", {"counts": PurePath("/dev/qp")}),
        ("pcie.semaphores", {"semaphores": PurePath("/pcie")}),
        ("marks.socket", {"marks": "/run/hostcc/marks.sock"}),
        ("marks.socket", {"marks": "@hostcc-marks"}),
    ],
)
def test_a_folder_that_holds_more_is_refused(key: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"^{key}: expected a path in a folder for jobs alone"):
        cdi.specification(replace(PLACES, **wrong))


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("rdma.plan", {"plan": PurePath("/dev/shm/hostcc/jobs/plan")}),
        ("rdma.plan", {"counts": PurePath("/dev/shm/hostcc/agent/jobs/qp")}),
        ("marks.socket", {"marks": "/dev/shm/hostcc/jobs/more/socket"}),
    ],
)
def test_nothing_of_the_agents_is_where_jobs_may_write(key: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"^{key}: expected a folder apart from"):
        cdi.specification(replace(PLACES, **wrong))


def without_version(made: dict[str, Any]) -> None:
    del made["cdiVersion"]


def with_a_field(made: dict[str, Any]) -> None:
    made["devices"][0]["containerEdits"]["mount"] = []


def with_a_name(made: dict[str, Any]) -> None:
    made["devices"][0]["name"] = "rdma_"


def with_a_kind(made: dict[str, Any]) -> None:
    made["kind"] = "job"


def with_a_variable(made: dict[str, Any]) -> None:
    made["devices"][0]["containerEdits"]["env"].append("=x")


def with_options_of_text(made: dict[str, Any]) -> None:
    made["devices"][0]["containerEdits"]["mounts"][0]["options"] = "ro,bind"


def with_a_device_twice(made: dict[str, Any]) -> None:
    made["devices"][1]["name"] = made["devices"][0]["name"]


@pytest.mark.parametrize(
    "change",
    [
        without_version,
        with_a_field,
        with_a_name,
        with_a_kind,
        with_a_variable,
        with_options_of_text,
        with_a_device_twice,
    ],
)
def test_the_check_refuses_what_is_wrong(change: Callable[[dict[str, Any]], None]) -> None:
    made = cdi.specification(PLACES)
    change(made)
    with pytest.raises(msgspec.ValidationError):
        convert(made)
