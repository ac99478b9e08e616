"""Why a job is plain, by the kernel's own word: each reason comes about, and is told."""

from __future__ import annotations

import pytest

from hostcc.daemon.jobs.views import PLAIN_REASONS, plain_reason
from hostcc.mltcp.params import JobParams, Mode
from tests.mltcp.native_build import HOSTCC, Native, NativeJob
from tests.mltcp.native_rounds import Rounds

pytestmark = pytest.mark.unit

SIZE = 4 << 20
GAP_US, COMM_US = 100_000, 50_000


def iterate(job: NativeJob, times: int, size: int = SIZE, gap_us: int = GAP_US) -> None:
    for _ in range(times):
        job.burst(size, spread_us=COMM_US)
        job.rest(gap_us)


def reason(job: NativeJob) -> str:
    """As enum hcc_plain names it."""
    names = {
        value: name for name, value in job.native.enums.items() if name.startswith("HCC_PLAIN")
    }
    return names[int(job.state["plain"])].removeprefix("HCC_PLAIN_")


def test_every_reason_has_words(native: Native) -> None:
    values = [value for name, value in native.enums.items() if name.startswith("HCC_PLAIN_")]
    assert sorted(values) == list(range(len(PLAIN_REASONS)))
    assert len(set(PLAIN_REASONS)) == len(PLAIN_REASONS)


def test_until_two_iterations_were_alike(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC)
    iterate(job, 2)
    job.burst(1000)
    assert reason(job) == "NOT"
    job = NativeJob(native, flows=2, variant=HOSTCC)
    iterate(job, 1)
    assert reason(job) == "LEARNING"


def test_more_than_an_iteration_has(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC)
    iterate(job, 4)
    job.burst(SIZE)
    assert reason(job) == "NOT"
    job.burst(SIZE)
    assert reason(job) == "OVERRUN"
    job.rest(GAP_US)
    job.burst(SIZE)
    assert reason(job) == "LEARNING"  # it was like no other


def test_hardly_a_pause(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC)
    iterate(job, 8, gap_us=COMM_US // 10)
    assert reason(job) == "NO_PAUSE"


def in_bursts(job: NativeJob, times: int, pause_us: int, bursts: int = 4) -> None:
    for _ in range(times):
        for number in range(bursts):
            job.rest(pause_us if number else GAP_US)
            job.burst(SIZE // bursts, spread_us=COMM_US // bursts)


def test_pauses_within_iterations(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC)
    in_bursts(job, 8, COMM_US // 5)
    assert reason(job) == "BURSTS"
    assert int(job.state["stance"]) == native.enums["HCC_STANCE_SCALED"]  # all else is sure
    job.rest(GAP_US)
    iterate(job, 7)
    assert reason(job) == "NOT"


@pytest.mark.parametrize(
    ("pause_us", "rate_known", "why"),
    [(1900, False, "NOT"), (2100, False, "BURSTS"), (2100, True, "NOT"), (3000, True, "BURSTS")],
)
def test_how_long_pauses_matter(native: Native, pause_us: int, rate_known: bool, why: str) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC)
    iterate(job, 4)
    job.state["ns_per_mib"] = rate_known and (COMM_US * 1000 << 20) // SIZE
    in_bursts(job, 8, pause_us)
    assert reason(job) == why


def test_one_iteration_in_three_with_pauses(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC)
    iterate(job, 6)
    for _ in range(6):
        in_bursts(job, 1, COMM_US // 5)
        in_bursts(job, 2, 0, bursts=1)
        assert reason(job) == "NOT"


def test_stalls_and_time_outs_are_no_pauses(native: Native) -> None:
    """As long as something is not acknowledged, the job does not pause."""
    job = NativeJob(native, flows=2, variant=HOSTCC)
    iterate(job, 4)
    for _ in range(8):
        native.call("send", 0, HOSTCC, job.now_us, 1448)
        for _ in range(4):
            job.rest(COMM_US // 2)
            native.call("send", 1, HOSTCC, job.now_us, SIZE // 4)
            native.call("ack", 1, HOSTCC, job.now_us + job.rtt_us, job.rtt_us)
        native.call("time_out", 0, HOSTCC, 2)
        job.rest(COMM_US // 2)
        native.call("ack", 0, HOSTCC, job.now_us, job.rtt_us)
        assert job.state["pause_ns"] == 0
        job.rest(GAP_US)
    assert job.state["bursts_q10"] == 0


@pytest.mark.parametrize(("received", "why"), [(0.0, "UNMETERED"), (1.0, "TWO_WAY")])
def test_which_way(native: Native, received: float, why: str) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC, received=received)
    iterate(job, 4)
    assert reason(job) == why


def test_small_iterations(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC, conf={"total_bytes": 62_000})
    iterate(job, 4, size=66_000)
    assert reason(job) == "SMALL"


def test_a_path_too_long_for_its_bursts(native: Native) -> None:
    job = NativeJob(native, flows=2, variant=HOSTCC, rtt_us=COMM_US // 10)
    iterate(job, 4)
    assert reason(job) == "LONG_PATH"


def test_held_back_in_vain_and_beside_whom(native: Native) -> None:
    path = Rounds(native)
    path.write()
    path.state["yield_ns"] = 2 * native.call("patience_ns", path.state)
    path.rounds(1, 0)
    assert path.state["plain"] == native.enums["HCC_PLAIN_YIELDED"]
    path = Rounds(native)
    path.write()
    path.rounds(1, 0)
    assert path.state["plain"] == native.enums["HCC_PLAIN_NOT"]
    path.rounds(40, 100_000)  # deeper than anybody who steers by delay lets it become
    assert path.state["plain"] == native.enums["HCC_PLAIN_UNRESPONSIVE"]


def test_told_only_where_the_mode_leaves_it_to_the_kernel() -> None:
    off, static = (JobParams("a", mode=mode, weight=1.0) for mode in (Mode.OFF, Mode.STATIC))
    assert plain_reason(off, "scaled", 5) == "mode off"
    assert plain_reason(static, "learning", 1) is None
    job = JobParams("a")
    assert plain_reason(job, "learning", 0) == PLAIN_REASONS[1]  # nothing acknowledged yet
    assert plain_reason(job, "scaled", 0) is None
    assert plain_reason(job, "plain", 4) == PLAIN_REASONS[4]
