"""Who is steered by delay: one-way jobs of sure boundaries; everybody else grows as cubic does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mltcp.native_build import HOSTCC, Native, NativeJob

pytestmark = pytest.mark.unit

SIZE = 4 << 20
GAP_US, COMM_US = 100_000, 50_000


def grows(native: Native, packets: int) -> bool:
    """Whether the first flow's window grows with what is acknowledged, as cubic's does."""
    before = native.call("grow", 0, 0)
    return native.call("grow", 0, packets * before) > before


def steered(job: NativeJob, iterations: int, size: int = SIZE) -> list[bool]:
    """Of each iteration, asked right after its first packet."""
    found = []
    for _ in range(iterations):
        job.native.call("send", 0, HOSTCC, job.now_us, 1448)
        found.append(not grows(job.native, 4))
        job.burst(size, spread_us=COMM_US)
        job.rest(GAP_US)
    return found


def test_a_one_way_job_is_steered_once_two_iterations_were_alike(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC)
    assert steered(job, 6) == [False, False, True, True, True, True]


def test_with_the_bytes_given_the_first_iteration_is_enough(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC, conf={"total_bytes": SIZE})
    assert steered(job, 4) == [False, True, True, True]


@pytest.mark.parametrize("received", [0.0, 0.31, 1.0, 20.0])
def test_who_receives_or_is_not_metered_never_is(native: Native, received: float) -> None:
    job = NativeJob(native, flows=4, variant=HOSTCC, received=received)
    assert not any(steered(job, 30))
    assert {native.call("pace", flow) for flow in range(4)} <= {0, 0xFFFFFFFF}


def test_who_pauses_within_iterations_grows_as_cubic(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC)
    for number in range(20):
        for burst in range(4):
            job.rest(COMM_US // 5 if burst else GAP_US)
            job.native.call("send", 0, HOSTCC, job.now_us, 1448)
            assert number < 8 or grows(native, 4)
            job.burst(SIZE // 4, spread_us=COMM_US // 4)


@given(
    sizes=st.lists(st.integers(1 << 18, 1 << 24), min_size=12, max_size=12),
    received=st.sampled_from([0.3, 0.5, 1.0]),
)
def test_a_ring_of_any_iterations_grows_as_cubic(
    native: Native, sizes: list[int], received: float
) -> None:
    job = NativeJob(native, variant=HOSTCC, received=received, conf={"f_q10": 4096})
    for size in sizes:
        job.burst(size, spread_us=COMM_US)
        before = native.call("grow", 0, 0)
        for _ in range(before):  # a packet for each of the window
            native.call("grow", 0, 1)
        assert native.call("grow", 0, 0) == before + 1
        job.rest(GAP_US)


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("received", "bursts_q10"), [(1.0, 0), (0.02, 1024)])
def test_of_a_job_that_is_not_steered_the_weight_counts(
    native: Native, weight: float, received: float, bursts_q10: int
) -> None:
    plain = round(weight * native.enums["HCC_ONE"])
    conf = {"f_q10": 77, "plain_q10": plain}
    job = NativeJob(native, variant=HOSTCC, received=received, conf=conf)
    job.state["bursts_q10"] = bursts_q10
    assert not any(steered(job, 3))
    start, acked = native.call("grow", 0, 0), 0
    while native.call("grow", 0, 1) < start + 10:
        acked += 1
    assert acked == pytest.approx(sum(start + n for n in range(10)) / weight, rel=0.05)


def test_a_direction_is_left_less_easily_than_entered(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC)
    assert steered(job, 4)[-1]
    job.received = 0.2
    assert all(steered(job, 4))
    job.received = 0.4
    assert steered(job, 4) == [True, False, False, False]
    job.received = 0.2
    assert not any(steered(job, 4))
    job.received = 0.02
    assert steered(job, 3) == [False, True, True]


def test_when_the_meter_goes_so_does_steering(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC)
    assert steered(job, 4)[-1]
    job.received = 0.0
    assert steered(job, 3) == [True, False, False]
