"""Which connections count, and how a job's bytes are divided among them."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from hostcc.daemon.gossip.profile_store import ExpectedJob
from hostcc.daemon.steering.elephants import (
    KEEP_PERIOD_S,
    MAX_EARLY,
    Connection,
    Sizes,
    begun,
    connections,
    flow_id,
    stalled,
)
from hostcc.model import JobProfile
from hostcc.paths.steering_messages import FlowKey

pytestmark = pytest.mark.unit

ROW = np.dtype(
    [
        ("slot", "u4"), ("family", "u2"), ("state", "u1"), ("laddr", "u1", (16,)),
        ("raddr", "u1", (16,)), ("lport", "u2"), ("rport", "u2"), ("srtt_us", "u4"),
        ("min_rtt_us", "u4"), ("mss_bytes", "u4"), ("retrans", "u4"), ("inflight", "u4"),
        ("bytes_acked", "u8"),
    ]
)  # fmt: skip
HOSTS = {"10.0.0.2": "b", "10.0.0.3": "c"}


def connection(port: int, acked: int, dst: str = "10.0.0.2", in_flight: int = 0) -> Connection:
    key = FlowKey("10.0.0.1", dst, port, 5301)
    return Connection("train", key, acked, 0.001, 0.0005, acked // 1448, 0, in_flight)


def profile(**to: float) -> JobProfile:
    names = {"b": "10.0.0.2", "c": "10.0.0.3"}
    volumes = tuple((names[name], size) for name, size in to.items())
    return JobProfile("train", 0.1, 0.1, 1e12, 1.0, period_s=0.2, bytes_to=volumes)


def row(src: str, dst: str, acked: int, slot: int = 1, state: int = 1) -> np.ndarray:
    made = np.zeros(1, ROW)
    v6 = ":" in src
    family = socket.AF_INET6 if v6 else socket.AF_INET
    made["family"], made["slot"], made["state"], made["bytes_acked"] = family, slot, state, acked
    for name, text in (("laddr", src), ("raddr", dst)):
        raw = socket.inet_pton(family, text)
        made[name][0, : len(raw)] = list(raw)
    made["lport"], made["rport"], made["mss_bytes"], made["min_rtt_us"] = (
        40000,
        5301,
        1000,
        2**32 - 1,
    )
    return made


def test_rows_of_jobs_that_have_sent_much() -> None:
    rows = np.concatenate(
        [
            row("10.0.0.1", "10.0.0.2", 5_000_000),
            row("10.0.0.1", "10.0.0.2", 10),
            row("10.0.0.1", "10.0.0.2", 5_000_000, slot=7),
            row("10.0.0.1", "10.0.0.2", 5_000_000, state=10),
            row("127.0.0.1", "127.0.0.2", 5_000_000),
            row("10.0.0.1", "10.0.0.1", 5_000_000),
            row("::ffff:10.0.0.1", "::ffff:10.0.0.3", 5_000_000),
            row("fd00::1", "fd00::2", 6_000_000),
        ]
    )
    found = connections(rows, {1: "train"}, 1_000_000)
    assert [(one.key.src, one.key.dst, one.segments) for one in found] == [
        ("10.0.0.1", "10.0.0.2", 5000),
        ("10.0.0.1", "10.0.0.3", 5000),
        ("fd00::1", "fd00::2", 6000),
    ]
    assert found[0].min_rtt_s == 0.0


def test_jobs_that_ran_before_count_from_their_first_byte() -> None:
    small = row("10.0.0.1", "10.0.0.2", 0)
    elsewhere, strange = row("10.0.0.1", "10.0.0.3", 0), row("10.0.0.1", "10.0.0.2", 0, slot=2)
    large = row("10.0.0.1", "10.0.0.3", 10**6)
    rows = np.concatenate([small, elsewhere, strange, large])
    jobs = {1: "train", 2: "other"}
    before = ExpectedJob(frozenset({"10.0.0.2"}), 5e5)
    found = connections(rows, jobs, 1e6, {"train": before, "gone": before})
    assert [(one.job, one.key.dst, one.acked) for one in found] == [
        ("train", "10.0.0.2", 0),
        ("train", "10.0.0.3", 10**6),
    ]
    many = np.concatenate([small] * (MAX_EARLY + 5) + [large])
    found = connections(many, jobs, 1e6, {"train": before})
    assert [one.acked for one in found] == [0] * MAX_EARLY + [10**6]


def test_a_job_that_ran_before_begins_with_part_of_an_iteration() -> None:
    before = ExpectedJob(frozenset({"10.0.0.2"}), 5e5)
    expected = {"train": before, "other": before}
    assert begun([connection(1, 0), connection(2, 499_999)], expected) == frozenset()
    assert begun([connection(1, 1), connection(2, 499_999)], expected) == {"train"}
    nothing = {"train": before._replace(begin_bytes=0.0)}
    assert begun([connection(1, 0)], nothing) == frozenset()


def test_one_connection_has_all_that_goes_to_its_host() -> None:
    found = Sizes().elephants([connection(1, 10**7)], [profile(b=3e6)], HOSTS, 1e6, 0.0)
    assert [(one.host, one.bytes) for one in found] == [("b", 3e6)]


def test_several_share_by_what_they_sent_lately() -> None:
    sizes = Sizes()
    sizes.elephants([connection(1, 9 * 10**9)], [profile(b=4e6)], HOSTS, 1e6, 0.0)
    those = [connection(1, 9 * 10**9 + 3 * 10**9), connection(2, 10**9)]
    found = sizes.elephants(those, [profile(b=4e6)], HOSTS, 1e5, 300.0)
    assert [one.bytes for one in found] == pytest.approx([3e6, 1e6], rel=0.01)


def test_mice_strangers_and_unmeasured_jobs_are_left_out() -> None:
    those = [
        connection(1, 10**7),
        connection(2, 10**7, "10.0.0.3"),
        connection(3, 10**7, "10.9.9.9"),
    ]
    found = Sizes().elephants(those, [profile(b=3e6, c=1e5)], HOSTS, 1e6, 0.0)
    assert [one.key.sport for one in found] == [1]
    assert Sizes().elephants(those, [], HOSTS, 1e6, 0.0) == []


def test_elephants_stay_for_a_while() -> None:
    sizes, one = Sizes(), [connection(1, 10**7)]
    assert sizes.elephants(one, [profile(b=1.1e6)], HOSTS, 1e6, 0.0)
    assert sizes.elephants(one, [profile(b=0.9e6)], HOSTS, 1e6, 1.0)
    assert sizes.elephants(one, [], HOSTS, 1e6, KEEP_PERIOD_S)
    assert not sizes.elephants(one, [], HOSTS, 1e6, KEEP_PERIOD_S + 2)
    assert not sizes.elephants(one, [profile(b=0.9e6)], HOSTS, 1e6, KEEP_PERIOD_S + 3)


def test_names_of_flows_are_their_own() -> None:
    key = FlowKey("10.0.0.1", "10.0.0.2", 1, 5301)
    other = FlowKey("10.0.1.1", "10.0.0.2", 1, 5301)
    assert flow_id(key) == flow_id(key) != flow_id(other)
    assert len(flow_id(FlowKey("f" * 39, "e" * 39, 65535, 65535))) <= 64


def test_flows_that_stand_still() -> None:
    before = {
        one.key: one for one in (connection(1, 5, in_flight=3), connection(2, 5, in_flight=3))
    }
    now = [
        connection(1, 5, in_flight=3),
        connection(2, 6, in_flight=3),
        connection(3, 5, in_flight=1),
    ]
    assert stalled(now, before) == {now[0].key}
    assert not stalled([connection(1, 5)], before)
