"""What other hosts say of turns, out of their records."""

from __future__ import annotations

import pytest

from hostcc.coord.core.payloads import (
    Content,
    FlowEntry,
    Flows,
    PathEntry,
    Paths,
    PayloadError,
    Profile,
    ProfilingClaim,
)
from hostcc.coord.core.record_checker import CheckedRecord, Slot
from hostcc.daemon.profiling.turns.claims import Claim, ClaimSnapshot, gather, with_own
from tests.coord.records import held, record

pytestmark = pytest.mark.unit

TURN, WAITS = ProfilingClaim(turn=True), ProfilingClaim(turn=False)
PROFILE = Profile(1.0, 0.5, 1e12, 8.0)


def says(writer: str, **contents: Content | bytes) -> dict[Slot, CheckedRecord]:
    """`kind_key=content`; bytes: withdrawn."""
    said = {}
    for name, content in contents.items():
        kind, _, key = name.partition("_")
        said[kind, key] = held(record(writer, kind, key, content))
    return said


def flows(dst: str, path: str = "") -> Flows:
    return Flows((FlowEntry("f", dst, 1e9, path=path),))


def test_what_all_hosts_of_a_job_say_is_one_claim() -> None:
    said = {
        "h1": says("h1", waiting_j=WAITS),
        "h2": says("h2", waiting_j=ProfilingClaim(turn=True, again=True)),
        "h3": says("h3", profile_j=PROFILE),
    }
    heard = gather(said, "h4", [])
    assert heard.claims == {"j": Claim(turn=True, again=True, places=frozenset({"h1", "h2", "h3"}))}


def test_ones_own_records_are_left_to_what_one_says_now() -> None:
    said = {"h1": says("h1", waiting_j=TURN), "h2": says("h2", waiting_k=WAITS)}
    heard = gather(said, "h1", ["j"])
    assert set(heard.claims) == {"k"}
    now = with_own(heard, "h1", {"j": WAITS}, ["j", "k", "l"])
    assert now["j"] == Claim(places=frozenset({"h1"}))
    assert now["k"].places == {"h1", "h2"}
    assert "l" not in now


def test_where_nobody_waits_nothing_is_worked_out() -> None:
    said = {"h1": says("h1", profile_j=PROFILE, flows_j=flows("h2"), waiting_k=b"")}
    assert gather(said, "h2", []) == ClaimSnapshot()


def test_links_are_those_of_the_path_that_is_taken() -> None:
    ways = Paths((PathEntry("p", ("a", "b")), PathEntry("q", ("c",))))
    known = says("h1", waiting_j=WAITS, flows_j=flows("h2", "q"), paths_h2=ways)
    unknown = says("h1", waiting_j=WAITS, flows_j=flows("h2"), paths_h2=ways)
    assert gather({"h1": known}, "h9", []).claims["j"].places == {"h1", "h2", "/c"}
    assert gather({"h1": unknown}, "h9", []).claims["j"].places == {"h1", "h2", "/a", "/b", "/c"}


def test_a_job_is_crowded_where_another_is_on_its_links_or_hosts() -> None:
    ways = Paths((PathEntry("p", ("spine",)),))
    mine = says("h1", waiting_j=WAITS, flows_j=flows("h2"), paths_h2=ways)
    theirs = says("h3", flows_k=flows("h4"), paths_h4=ways)
    assert gather({"h1": mine}, "h1", ["j"]).crowded == frozenset()
    assert gather({"h1": mine, "h3": theirs}, "h1", ["j"]).crowded == {"j"}
    assert gather({"h1": mine, "h2": says("h2", profile_k=PROFILE)}, "h1", ["j"]).crowded == {"j"}
    assert not gather({"h1": mine, "h5": says("h5", profile_k=PROFILE)}, "h1", ["j"]).crowded


def test_two_that_wait_on_one_host_crowd_each_other() -> None:
    assert gather({}, "h1", ["j", "k"]).crowded == {"j", "k"}


def test_flows_of_jobs_that_nobody_claims_are_not_read() -> None:
    damaged = CheckedRecord.of(record("h3", "flows", "k", b"no flows"), 1, 1, None, 1)
    said = {"h1": says("h1", waiting_j=WAITS), "h3": {("flows", "k"): damaged}}
    assert gather(said, "h9", []).claims["j"].places == {"h1"}
    with pytest.raises(PayloadError):
        gather(said, "h9", ["l"])
