"""Labels and classes that a library chose where the job did not: UCX's, librdmacm's.

Absent hardware: a stand-in for libibverbs (native/fake_verbs.c) is plain memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.verbs.build import SHIM, VERBS_HEADER
from hostcc.verbs.plan_region import PlanRegion, RdmaJob
from tests.verbs.test_nccl_env import Host, host
from tests.verbs.test_shim_native import places, program
from tests.verbs.test_shim_odd import Odd, Places, a_fake_mlx5, a_stand_in, odd

__all__ = ["host", "odd", "places", "program"]
pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
    pytest.mark.slow,
]
THERE, PORT, CLASS = "198.18.0.1", 50000, 0x20
UCX_LABEL, UCX_CLASS, UCX_PORT = 0xFFFFFFFF, 106, 65472
"""Of its first path; the port that the kernel makes of that label."""
OWN_LABEL = 0x12345


@pytest.fixture
def region(places: Places) -> Iterator[PlanRegion]:
    made = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    made.publish([RdmaJob("job", CLASS, ((THERE, (PORT,)),))])
    yield made
    made.close()


def given(**variables: object) -> str:
    """Shell commands that export them."""
    return ";".join(f"export {name}={value}" for name, value in variables.items())


def vector(odd: Path, places: Places, before: str) -> tuple[str, tuple[int, int]]:
    """What the device has, "LABEL CLASS"; and what the shim says of it, (port, class)."""
    one = Odd(odd, "vector", places, before)
    one.go()
    said = one.says()
    assert one.says() == "good"
    count = one.count()
    assert count is not None
    (pair,) = count.qps
    one.end()
    return said, (pair.port, pair.traffic_class)


def test_what_the_job_chose_is_kept(odd: Path, places: Places, region: PlanRegion) -> None:
    before = given(ODD_LABEL=OWN_LABEL, ODD_CLASS=UCX_CLASS)
    assert vector(odd, places, before) == (f"{OWN_LABEL:#x} {UCX_CLASS}", (0, UCX_CLASS))


@pytest.mark.parametrize("path", [0, 1])
def test_what_ucx_fills_in_is_not_the_jobs_choice(
    odd: Path, places: Places, region: PlanRegion, path: int
) -> None:
    before = given(ODD_LABEL=UCX_LABEL - path, ODD_CLASS=UCX_CLASS)
    assert vector(odd, places, before) == (f"{PORT & 0x3FFF:#x} {CLASS}", (PORT, CLASS))


@pytest.mark.parametrize("table", ["IB", "RC_VERBS"])
def test_a_class_that_ucx_was_told_is_kept(
    odd: Path, places: Places, region: PlanRegion, table: str
) -> None:
    told = {f"UCX_{table}_TRAFFIC_CLASS": UCX_CLASS}
    before = given(ODD_LABEL=UCX_LABEL, ODD_CLASS=UCX_CLASS, **told)
    assert vector(odd, places, before) == (f"{PORT & 0x3FFF:#x} {UCX_CLASS}", (PORT, UCX_CLASS))
    before = given(ODD_LABEL=UCX_LABEL, ODD_CLASS=8)
    assert vector(odd, places, before) == (f"{PORT & 0x3FFF:#x} 8", (PORT, 8))


def test_a_label_by_rdma_cm_is_the_kernels(odd: Path, places: Places, region: PlanRegion) -> None:
    """The class is the program's, by rdma_set_option."""
    library = a_stand_in(odd, "librdmacm.so.1", "fake_rdmacm.c", "-fno-optimize-sibling-calls")
    before = given(ODD_RDMACM=library, ODD_LABEL=OWN_LABEL)
    assert vector(odd, places, before) == (f"{PORT & 0x3FFF:#x} {CLASS}", (PORT, CLASS))
    before = given(ODD_RDMACM=library, ODD_LABEL=OWN_LABEL, ODD_CLASS=8)
    assert vector(odd, places, before) == (f"{PORT & 0x3FFF:#x} 8", (PORT, 8))


def test_back_is_to_the_label_that_ucx_had(odd: Path, places: Places, region: PlanRegion) -> None:
    one = Odd(odd, "vector", places, given(ODD_LABEL=UCX_LABEL, ODD_CLASS=UCX_CLASS))
    region.publish([RdmaJob("job", CLASS, ((THERE, ()),))])
    one.until(lambda count: (count.qps[0].port, count.qps[0].moves) == (0, 1))
    one.go()
    assert one.says() == f"{UCX_LABEL:#x} {CLASS}"
    assert one.says() == "good"
    one.end()


def test_back_by_mlx5s_call_is_to_the_port_of_that_label(
    odd: Path, places: Places, region: PlanRegion
) -> None:
    one = Odd(odd, "back", places, given(ODD_MLX5=a_fake_mlx5(odd), ODD_LABEL=UCX_LABEL,
                                         ODD_PORT=UCX_PORT))  # fmt: skip
    region.publish([RdmaJob("job", CLASS, ((THERE, ()),))])
    one.go()
    assert one.says() == "good"
    one.end()


def test_without_an_agent_ucxs_vector_is_as_it_was(odd: Path, places: Places) -> None:
    one = Odd(odd, "vector", places, given(ODD_LABEL=UCX_LABEL, ODD_CLASS=UCX_CLASS))
    one.go()
    assert one.says() == f"{UCX_LABEL:#x} {UCX_CLASS}"
    assert one.says() == "good"
    one.end()


def test_a_class_that_nccl_asked_hostccs_plugin_for_follows_the_plan(
    odd: Path, places: Places, region: PlanRegion, host: Host
) -> None:
    """It is no choice of the job's, so it changes with the plan, as without the plugin."""
    nccl = Host(host.program, places[0])
    given_class = nccl.answers(LD_PRELOAD=str(SHIM.target))[1].replace("(null)", "0")
    one = Odd(odd, "vector", places, given(ODD_CLASS=given_class))
    one.until(lambda count: count.qps[0].traffic_class == CLASS)
    region.publish([RdmaJob("job", CLASS + 8, ((THERE, (PORT,)),))])
    one.until(lambda count: (count.qps[0].traffic_class, count.qps[0].moves) == (CLASS + 8, 1))
    one.end()
