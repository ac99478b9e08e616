"""Small decisions: which flows, which port, when to go back, how much, which queue."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from hostcc.cli.kernel_probes import in_new_netns
from hostcc.daemon.changes import path_kinds
from hostcc.errors import InputError
from hostcc.model import Path, PathTable
from hostcc.paths import choose, egress_queues, shares
from hostcc.paths.fallback import FallbackSettings, FlowWatch, Sample
from hostcc.paths.mark_kernel import JobMark
from hostcc.paths.shares import Hold
from tests.refusals import refusal_of

pytestmark = pytest.mark.unit

TABLE = PathTable("a", "b", (Path("p", ("x",), (50000, 61001, 61005)), Path("q", ("y",), (61002,))))


def test_ports_come_from_the_reserved_range_and_may_run_out() -> None:
    assert choose.port_for(TABLE, "p", lambda _: True) == 61001
    assert choose.port_for(TABLE, "p", lambda port: port != 61001) == 61005
    assert choose.port_for(TABLE, "p", lambda _: False) == 0
    assert choose.port_for(TABLE, "gone", lambda _: True) == 0
    assert choose.new_ports(TABLE, "p", frozenset({61001}), 8) == (61005,)
    assert choose.new_ports(TABLE, "p", frozenset(), 1) == (61001,)
    assert choose.new_ports(TABLE, "gone", frozenset(), 1) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "61000-65535"),
        ("8080\n", "8080,61000-65535"),
        ("8080,60000-62000", "8080,60000-65535"),
        ("60999", "60999-65535"),
        ("61000-65535", "61000-65535"),
    ],
)
def test_reserved_ports(before: str, after: str) -> None:
    assert choose.reserved(before, 61000, 65535) == after


def test_reserved_ports_of_nonsense() -> None:
    assert "expected port ranges" in refusal_of(choose.reserved, "x-y", 1, 2)


GOOD = Sample(at_s=0.0, srtt_s=0.001, usual_rtt_s=0.001, segments=0, retransmitted=0)


def test_a_healthy_flow_stays() -> None:
    watch = FlowWatch()
    for second in range(20):
        sample = replace(GOOD, at_s=float(second), segments=1000 * second, retransmitted=second)
        assert watch.judge(sample, plan_at_s=0.0, peer_alive=True) == ""


@pytest.mark.parametrize("what", ["latency", "loss", "age", "peer"])
def test_a_flow_falls_back(what: str) -> None:
    watch = FlowWatch(FallbackSettings(bad_s=1.0, plan_age_s=30.0, again_s=10.0))
    reasons = []
    for step in range(5):
        sample = Sample(
            at_s=step * 0.5, srtt_s=0.02 if what == "latency" else 0.001, usual_rtt_s=0.001,
            segments=1000 * step, retransmitted=100 * step if what == "loss" else 0,
        )  # fmt: skip
        plan_at = -100.0 if what == "age" else 0.0
        reasons.append(watch.judge(sample, plan_at, peer_alive=what != "peer"))
    words = {"latency": "RTT 20.0 ms", "loss": "10.0 %", "age": "s old", "peer": "gone"}[what]
    first = next(n for n, why in enumerate(reasons) if why)
    assert words in reasons[first]
    assert first >= (2 if what in {"latency", "loss"} else 0)
    last = max(n for n, why in enumerate(reasons) if why) * 0.5
    assert not watch.may_move(last + 9.9)
    assert watch.may_move(last + 10.0)


def test_a_queue_of_its_own_is_no_reason() -> None:
    watch = FlowWatch(FallbackSettings(bad_s=0.0, rtt_floor_s=0.02))
    slow = replace(GOOD, srtt_s=0.02)
    assert watch.judge(slow, 0.0, peer_alive=True) == ""
    assert "RTT 22.0 ms instead of 1.0 ms" in watch.judge(
        replace(GOOD, srtt_s=0.022), 0.0, peer_alive=True
    )


def test_a_short_peak_is_no_reason() -> None:
    watch = FlowWatch()
    for step in range(20):
        sample = replace(GOOD, at_s=0.5 * step, srtt_s=0.02 if step % 2 else 0.001)
        assert watch.judge(sample, 0.0, peer_alive=True) == ""


def test_shares() -> None:
    mark = JobMark(tos=8)
    assert shares.held(mark, Hold.OFF, 1e9, 4, 1e-3, 1448) == mark
    assert shares.held(mark, Hold.PACE, 1e9, 4, 1e-3, 1448) == JobMark(8, pace_bps=2.5e8)
    assert shares.held(mark, Hold.PACE, 1e12, 4, 1e-3, 1448) == mark
    assert shares.held(mark, Hold.WINDOW, 1e9, 4, 1e-3, 1000) == JobMark(8, clamp_packets=250)
    assert shares.held(mark, Hold.WINDOW, 1e3, 4, 1e-3, 1000).clamp_packets == 4
    assert shares.held(mark, Hold.WINDOW, 1e9, 0, 1e-3, 1448) == mark


def test_egress_refuses() -> None:
    assert "interface name" in refusal_of(
        egress_queues.commands, egress_queues.Queues.HTB, "a;b", [8], 1.0
    )
    assert "1 to 14" in refusal_of(egress_queues.commands, egress_queues.Queues.PRIO, "eth0", [])
    assert "above 0" in refusal_of(egress_queues.commands, egress_queues.Queues.HTB, "eth0", [8])
    with pytest.raises(InputError, match="somebody chose"):
        egress_queues.change(egress_queues.Queues.HTB, "eth0", "htb", 3)
    assert egress_queues.change(egress_queues.Queues.HTB, "eth0", "noqueue", 3).before == "noqueue"


@pytest.mark.kernel
def test_htb_classes_are_made_and_undone() -> None:
    def tc(*lines: str) -> str:
        done = subprocess.run(
            ["tc", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def scene() -> tuple[str, str]:
        made = "ip link add q0 type veth peer name q1 && ip link set q0 up"
        subprocess.run(["sh", "-c", made], check=True)
        tc(*egress_queues.commands(egress_queues.Queues.HTB, "q0", [160, 128, 32], 1000.0))
        shown = tc("class show dev q0", "filter show dev q0")
        tc(*egress_queues.undo("q0"))
        return shown, tc("qdisc show dev q0")

    shown, after = in_new_netns(scene)
    assert shown.count("parent c1c:ff") == 4
    assert shown.count("flowid c1c:1 ") == 2  # IPv4 and IPv6
    assert "htb" not in after


def test_changes_have_stable_names() -> None:
    assert path_kinds.hooks("eth0", 1).id == "steer-hooks:eth0"
    assert path_kinds.mark("job1", 160, "plan").after == {"dscp": 40}
    assert path_kinds.reserved_ports("", "61000-65535", 1).id == "reserved-ports"
