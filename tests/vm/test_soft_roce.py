"""RDMA counters of real Soft-RoCE devices, against what was sent."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest

from tests.vm.test_oldest_kernel import finished
from tests.vm.test_oldest_kernel import pytestmark as of_the_vm

pytestmark = [
    *of_the_vm,
    pytest.mark.skipif(
        importlib.util.find_spec("pyverbs") is None, reason="no pyverbs; tools/setup gets it"
    ),
]

SIZE, TIMES, MTU = 65536, 20, 1024


def test_counters_and_bytes() -> None:
    output = finished([sys.executable, "-m", "tests.vm.soft_roce", str(SIZE), str(TIMES)])
    report = json.loads(output.partition("REPORT ")[2])
    before, after = report["before"]["ports"], report["after"]["ports"]
    assert [(p["device"], p["netdev"]) for p in after] == [("rxa", "va"), ("rxb", "vb")]
    packets = SIZE * TIMES // MTU

    def counted(end: int, name: str) -> int:
        return int(after[end]["counted"][name]) - int(before[end]["counted"][name])

    retried = sum(
        after[end]["raw"][name]
        for end in (0, 1)
        for name in ("completer_retry_err", "duplicate_request", "out_of_seq_request")
    )
    sent, got, acks = (
        counted(*which) for which in ((0, "tx_packets"), (1, "rx_packets"), (0, "rx_packets"))
    )
    # On a busy machine the guest may miss its own time-out, and send again.
    assert min(sent, got) >= packets
    assert acks >= TIMES
    if not retried:
        assert (sent, got, acks) == (packets, packets, TIMES)
    assert after[0]["counted"]["tx_bytes"] is None
    assert report["wire"] > SIZE * TIMES
    if not retried:
        # Ethernet, IP, UDP, BTH and ICRC: 58 bytes a packet, RETH: 16 more for the first.
        assert report["wire"] == packets * (MTU + 58) + TIMES * 16
    # The kernel takes the setting for any device, but this driver has no counters to bind.
    assert report["bind"] == ""
    assert report["after"]["processes"] == []
    found = {one["name"]: one for one in report["doctor"]}
    for device in ("rxa", "rxb"):
        for what in ("", " source port", " class", " live change", " counters"):
            assert found[f"{device}/1{what}"]["state"] == "ok", found
        assert found[f"{device}/1 modify_udp_sport"]["state"] == "unknown"
        assert found[f"{device}/1 DCQCN"]["state"] == "missing"
        assert found[f"{device}/1 counters"]["detail"] == "packets, retransmissions; no bytes"
