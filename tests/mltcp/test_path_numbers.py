"""hostcc/bpf/programs/path.bpf.h: whose window a socket gets, and how long it stays whose it is."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mltcp.native_build import HOSTCC, SLOT, Native, NativeJob
from tests.mltcp.native_rounds import BASE_US, Rounds, floor_packets

pytestmark = pytest.mark.unit

RTT_US = 200
FLOOR_GAP_US, CROWD_GAP_US = 3000, 12_000


@given(
    st.lists(
        st.tuples(st.integers(0, 15), st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=80
    )
)
def test_one_window_for_each_job_and_peer(
    native: Native, steps: list[tuple[int, int, int]]
) -> None:
    """Sockets open and close in any order."""
    native.call("reset")
    whose: dict[int, tuple[int, int]] = {}
    for flow, slot, peer in steps:
        if flow in whose:
            native.call("close", flow, HOSTCC)
            del whose[flow]
        else:
            native.call("open_to", flow, slot, HOSTCC, RTT_US, peer)
            whose[flow] = slot, peer
        numbers = {open_flow: native.call("path", open_flow) for open_flow in whose}
        assert all(numbers.values())
        assert len(set(numbers.values())) == len(set(whose.values()))
        users = Counter(numbers.values())
        assert {n: int(native.paths[n]["users"]) for n in users} == users
        assert int(np.count_nonzero(native.paths["users"])) == len(users)
        keys = {open_flow: native.paths[number]["key"] for open_flow, number in numbers.items()}
        assert whose == {
            open_flow: (int(key["slot"]), int(key["peer"][3])) for open_flow, key in keys.items()
        }


def test_free_windows_remember_nothing(native: Native) -> None:
    native.call("reset")
    first = NativeJob(native, 1, RTT_US, HOSTCC)
    native.paths["q_us"] = 77
    first.close()
    native.call("open", 0, SLOT, HOSTCC, RTT_US)
    assert native.paths[native.call("path", 0)]["q_us"] == 0


def test_stale_number_is_replaced(native: Native) -> None:
    """Whoever looked a path up just before it became another's takes one of its own."""
    native.call("reset")
    native.call("open_to", 0, SLOT, HOSTCC, RTT_US, 1)
    number = native.call("path", 0)
    native.paths[number]["key"]["peer"][3] = 2  # as if freed and given to another meanwhile
    native.call("open_to", 1, SLOT, HOSTCC, RTT_US, 1)
    assert native.call("path", 1) not in (0, number)
    assert native.paths[number]["users"] == 1
    native.call("open_to", 2, SLOT, HOSTCC, RTT_US, 1)
    assert native.call("path", 2) == native.call("path", 1)


@pytest.mark.parametrize("users", [1, 1 << 31], ids=["taken", "being taken"])
def test_without_a_free_window_growth_is_plain(native: Native, users: int) -> None:
    job = NativeJob(native, 1, RTT_US, HOSTCC, conf={"f_q10": 256})
    job.state["stance"] = native.enums["HCC_STANCE_SCALED"]
    native.paths["users"] = users
    native.call("open_to", 1, SLOT, HOSTCC, RTT_US, 1)
    assert native.call("path", 1) == 0
    start = native.call("grow", 1, 0)
    acked = 0
    while native.call("grow", 1, 1) < start + 5:
        acked += 1
    assert acked == pytest.approx(sum(start + n for n in range(5)), rel=0.05)
    native.call("send", 1, HOSTCC, job.now_us, 100_000)
    native.call("ack", 1, HOSTCC, job.now_us + RTT_US, RTT_US)
    assert job.state["bytes_acked"] == 100_000
    native.call("close", 1, HOSTCC)
    assert (native.paths["users"] == users).sum() >= len(native.paths) - 1


@pytest.mark.parametrize("crowd", [False, True])
@pytest.mark.parametrize("peers", [4, 16, 60])
def test_windows_of_several_peers_yield_together(native: Native, peers: int, crowd: bool) -> None:
    """Each at its own floor, which is the lower the more there are."""
    path = Rounds(native, flows=peers)
    path.job.close()
    for flow in range(peers):
        native.call("open_to", flow, SLOT, HOSTCC, BASE_US, 1 + flow)
    path.write()
    assert len({native.call("path", flow) for flow in range(peers)}) == peers
    queue_us = path.target_us * (11 if crowd else 9) // 8
    for _ in range(60):
        path.state["yield_ns"] = path.state["unresponsive_ns"] = 0  # patience without end
        path.round(queue_us)
    gap_us = max(FLOOR_GAP_US * max(peers, 8) // 8, CROWD_GAP_US if crowd else 0)
    for flow in range(peers):
        row = native.paths[native.call("path", flow)]
        assert int(row["window_q10"]) == 1024 * floor_packets(gap_us, queue_us)
        assert path.gap_us(flow) == pytest.approx(gap_us, rel=0.02)


@given(st.integers(0, 4096))
def test_bursts_of_a_job_that_yields_do_not_add_up(native: Native, peers: int) -> None:
    """To all peers together as much as to eight, and to each at least every 40 ms."""
    few, longest = native.enums["HCC_FEW_PEERS"], native.enums["HCC_PARK_MAX_US"]
    gap_us = native.call("floor_gap_us", FLOOR_GAP_US, peers)
    assert gap_us == min(max(FLOOR_GAP_US, FLOOR_GAP_US * peers // few), longest)
