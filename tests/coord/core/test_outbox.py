"""Whatever is to be said fits into messages that the codec takes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.coord.core import codec, summary
from hostcc.coord.core.message import (
    JOB_DIGEST_BYTES,
    MAX_ENTRIES,
    MAX_JOB_DIGESTS,
    MAX_LEAVES,
    MAX_MESSAGE,
    Probe,
    ViewReport,
)
from hostcc.coord.core.outbox import Outbox
from hostcc.coord.core.repair import Exchange
from hostcc.coord.plan_difference import PlanDigests
from tests.coord.records import held, record

pytestmark = pytest.mark.unit

SMALL = [held(record("a", "weather", f"k{index}", b"x")) for index in range(700)]
LARGE = [held(record("a", "weather", f"l{index}", bytes(16_384))) for index in range(12)]


@given(
    st.integers(0, len(SMALL)),
    st.integers(0, len(LARGE)),
    st.integers(0, 60),
    st.integers(0, MAX_ENTRIES),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_everything_arrives_within_bounds(
    small: int, large: int, pings: int, entries: int, first: bool
) -> None:
    out = Outbox()
    names = summary.pack(SMALL[index % 700] for index in range(entries))
    exchange = Exchange(leaves=bytes(8 * MAX_LEAVES), entries=names, records=tuple(LARGE[:large]))
    if first:
        out.exchange("p", exchange)
    out.records("p", SMALL[:small])
    out.announce("p", summary.pack(SMALL[:500]))
    for nonce in range(pings):
        out.ping("p", nonce)
        out.ack("p", nonce)
        out.probe("p", Probe("q", nonce))
    out.holding("p", ViewReport("d"))
    if not first:
        out.exchange("p", exchange)
    messages = [codec.decode(codec.encode(one.payload)) for one in out.take()]
    assert sum(len(one.records) for one in messages) == small + large
    assert sum(len(one.pings) for one in messages) == pings
    assert sum(len(one.probes) for one in messages) == pings
    assert sum(len(one.entries) for one in messages) == 24 * (entries + 500)
    assert sum(one.holding is not None for one in messages) == 1
    assert out.take() == []


def test_a_report_tells_of_many_jobs_beside_whatever_else_there_is() -> None:
    out = Outbox()
    jobs = {f"{index:064}": bytes(JOB_DIGEST_BYTES) for index in range(MAX_JOB_DIGESTS)}
    out.records("p", LARGE)
    out.holding("p", ViewReport("d"), PlanDigests("e", jobs))
    encoded = [codec.encode(one.payload) for one in out.take()]
    assert max(map(len, encoded)) <= MAX_MESSAGE
    (told,) = [one for one in map(codec.decode, encoded) if one.holding is not None]
    assert (told.plan, told.jobs) == ("e", jobs)


def test_one_message_for_each_peer() -> None:
    out = Outbox()
    for peer in "pq":
        out.ping(peer, 1)
        out.records(peer, SMALL[:3])
    assert [one.peer for one in out.take()] == ["p", "q"]
