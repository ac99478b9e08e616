"""hostcc/bpf/programs/mend.bpf.h: answers that the kernel loses, and jobs that never pause."""

from __future__ import annotations

import pytest

from tests.mltcp.native_build import HOSTCC, RENO, SLOT, Native, NativeJob

pytestmark = pytest.mark.unit

ADDRESS = 0x81102510
"""Low half of a kernel address: what has been seen in the place of an answer."""


@pytest.mark.parametrize("variant", [RENO, HOSTCC])
def test_ssthresh_after_a_time_out_is_what_was_answered(native: Native, variant: int) -> None:
    NativeJob(native, 2, variant=variant)
    right = native.call("time_out", 0, variant, 5)
    assert native.call("time_out", 0, variant, ADDRESS) == right == 5


@pytest.mark.parametrize("variant", [RENO, HOSTCC])
def test_cwnd_after_an_undo_is_what_was_answered(native: Native, variant: int) -> None:
    NativeJob(native, 2, variant=variant)
    assert native.call("undo", 0, variant, ADDRESS) == 10
    assert native.call("undo", 0, variant, 7) == 7  # possible: left alone


def test_no_ssthresh_yet_is_not_wrong(native: Native) -> None:
    NativeJob(native, 2, variant=RENO)
    infinite = 0x7FFFFFFF
    assert native.call("leave_state", 0, infinite) == infinite


@pytest.mark.parametrize(("gap_ns", "scaled"), [(10**7, False), (2 * 10**7, True)])
def test_a_job_that_hardly_pauses_is_not_shaped(native: Native, gap_ns: int, scaled: bool) -> None:
    scaled_stance = native.enums["HCC_STANCE_SCALED"]
    state = native.state(
        stance=scaled_stance, trust=8, iterations=20, total_bytes=10**7, iteration_bytes=10**7,
        usual_gap_ns=gap_ns, best_comm_ns=10**8, last_active_ns=10**8,
    )  # fmt: skip
    native.call("iteration_end", state, native.conf(), 10**8 + gap_ns)
    assert (state["stance"] == scaled_stance) == scaled


@pytest.mark.parametrize(("sent", "f"), [(1.0, 2048), (1.2, 2048), (1.3, 1024), (50, 1024)])
def test_more_than_an_iteration_has_is_not_urgent(native: Native, sent: float, f: int) -> None:
    NativeJob(native, 1, variant=RENO)
    native.confs[SLOT]["f_q10"] = 2048
    row = native.states[SLOT]
    row["stance"], row["iterations"] = native.enums["HCC_STANCE_SCALED"], 20
    row["total_bytes"], row["iteration_bytes"] = 10**6, int(sent * 10**6)
    assert native.call("flow_f_q10", 0) == f
