"""From records to a view: the same bytes everywhere, and nothing that a plan would refuse."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hostcc.coord.core.message import Record
from hostcc.coord.core.payloads import FlowEntry, Flows, Links, Member, PathEntry, Paths, Profile
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store
from hostcc.coord.view import Snapshot, build, neighbours
from hostcc.coord.view_index import ViewIndex
from hostcc.schedule.assumed_work import BY_GPUS, EQUAL, MEAN
from hostcc.schedule.plan import Options, plan
from tests.coord.records import held, member, profile, record

pytestmark = pytest.mark.unit


def view(*records: Record, dead: str = "", rules: str = "r") -> Snapshot:
    store = Store(Settings())
    for one in records:
        store.put(held(one), 0.0)
    return build(store, {dead}, rules)


def same(one: Snapshot, other: Snapshot) -> bool:
    """Whether they are equal in everything that anybody reads."""
    return (one.digest, one.view, one.index.jobs) == (
        other.digest,
        other.view,
        other.index.jobs,
    ) and all(
        neighbours(one, name, 3) == neighbours(other, name, 3)
        and one.view_for(name) == other.view_for(name)
        for name in one.view.members
    )


def ring(*hosts: str, job: str = "j") -> list[Record]:
    """Members that run a job, each sending to the next over two paths."""
    made = []
    for index, host in enumerate(hosts):
        after = hosts[(index + 1) % len(hosts)]
        ways = tuple(PathEntry(f"p{s}", (f"{host}-s{s}", f"s{s}-{after}")) for s in (0, 1))
        links = tuple(sorted((link, 1.25e9) for way in ways for link in way.links))
        made += [
            member(host),
            profile(host, job, to=((after, 1e9),)),
            record(host, "flows", job, Flows((FlowEntry("f", after, 1e9),))),
            record(host, "paths", after, Paths(ways)),
            record(host, "links", "", Links(links)),
        ]
    return made


def test_work_is_summed_and_times_are_the_longest() -> None:
    records = [
        member("a"),
        member("b"),
        record("a", "profile", "j", _profile(compute_s=1.0, comm_s=0.2, work=1e12)),
        record("b", "profile", "j", _profile(compute_s=2.0, comm_s=0.1, work=3e12)),
    ]
    (job,) = view(*records).view.jobs
    assert (job.work, job.gpus, job.compute_s, job.comm_s) == (4e12, 16.0, 2.0, 0.2)


def test_a_host_that_cannot_measure_takes_the_mean_of_the_others() -> None:
    records = [
        *(member(name) for name in "abc"),
        record("a", "profile", "j", _profile(work=1e12)),
        record("b", "profile", "j", _profile(work=3e12)),
        record("c", "profile", "j", _profile(work=0.0)),
    ]
    (job,) = view(*records).view.jobs
    assert (job.work, job.assumed) == (6e12, MEAN)


def test_work_assumed_by_gpus_is_weaker_than_measured_work() -> None:
    records = [
        *(member(name) for name in "abc"),
        record("a", "profile", "j", _profile(work=0.0, assumed_flop_per_s=4e15)),
        record("b", "profile", "j", _profile(work=0.0, assumed_flop_per_s=2e15)),
    ]
    (job,) = view(*records, record("c", "profile", "j", _profile(work=0.0))).view.jobs
    assert (job.work, job.assumed) == (9e15, BY_GPUS)
    (job,) = view(*records, record("c", "profile", "j", _profile(work=1e12))).view.jobs
    assert (job.work, job.assumed) == (3e12, MEAN)


def test_jobs_without_measured_work_are_ordered_by_their_owners_weights() -> None:
    for heavy in "jk":
        records = [member("a"), member("b")]
        for job in "jk":
            records += [
                record(
                    "a", "profile", job, _profile(work=0.0, weight=4.0 if job == heavy else 1.0)
                ),
                record("a", "flows", job, Flows((FlowEntry(f"f{job}", "b", 1e9),))),
            ]
        records += [
            record("a", "paths", "b", Paths((PathEntry("p", ("a-b",)),))),
            record("a", "links", "", Links((("a-b", 1e9),))),
        ]
        found = view(*records).view
        assert {job.assumed for job in found.jobs} == {EQUAL}
        first, second = sorted(plan(found).jobs, key=lambda one: one.rank)
        assert first.job == heavy
        assert first.level < second.level


def _profile(**values: float) -> Profile:
    return replace(Profile(1.0, 0.5, 1e12, 8.0), **values)


def test_hosts_that_measure_other_silences_do_not_overlap() -> None:
    """Nobody computes while it sends; beside other jobs some silences come out too short."""
    hosts = {"a": (0.204, 0.204), "b": (0.13, 0.13), "c": (0.15, 0.1)}
    records = [member(host) for host in hosts]
    for host, (compute_s, start_s) in hosts.items():
        told = _profile(compute_s=compute_s, comm_start_s=start_s)
        records.append(record(host, "profile", "j", told))
    (job,) = view(*records).view.jobs
    assert (job.compute_s, job.comm_start_s) == (0.204, 0.204)


def test_a_guess_of_one_host_does_not_change_what_another_has_measured() -> None:
    guess = _profile(compute_s=9.0, comm_start_s=9.0, period_s=9.0, comm_s=9.0, slowdown=9.0)
    records = [
        member("a"),
        member("b"),
        record("a", "profile", "j", _profile(period_s=1.5, slowdown=1.2)),
        record("b", "profile", "j", replace(guess, provisional=True)),
    ]
    (job,) = view(*records).view.jobs
    assert (job.compute_s, job.comm_start_s, job.period_s) == (1.0, 0.5, 1.5)
    assert (job.comm_s, job.slowdown, job.confidence) == (0.0, 1.2, 1.0)
    assert (job.work, job.gpus) == (2e12, 16.0)


def test_guesses_alone_make_a_job_of_no_confidence() -> None:
    records = [
        member("a"),
        record("a", "profile", "j", replace(_profile(period_s=2.0), provisional=True)),
    ]
    found = view(*records)
    assert [(job.period_s, job.confidence) for job in found.view.jobs] == [(2.0, 0.0)]
    sure = record("a", "profile", "j", _profile(period_s=2.0), version=2)
    assert view(*records, sure).view.digest != found.view.digest


def test_any_order_gives_the_same_view() -> None:
    records = [*ring("a", "b", "c"), *ring("d", "e", job="k")]
    expected = view(*records)
    assert expected.view.digest
    for seed in range(10):
        Random(seed).shuffle(records)
        assert msgspec.msgpack.encode(view(*records).view) == msgspec.msgpack.encode(expected.view)


def test_the_digest_covers_what_a_plan_depends_on_and_nothing_else() -> None:
    base = ring("a", "b")
    same = view(*base).view.digest
    assert view(*base, member("z")).view.digest == same
    assert view(*base, record("a", "links", "", Links((("other", 1.0),)), version=0)).view.digest
    renamed = record("a", "member", "", Member("elsewhere:1", 1), version=7)
    assert view(*base, renamed).view.digest == same
    for other in (
        view(*base, rules="q"),
        view(*base, dead="b"),
        view(*base, profile("a", "j", 2e12, version=9, to=(("b", 1e9),))),
        view(*base, record("a", "flows", "j", b"", version=9)),
        view(*base, record("a", "paths", "b", Paths(()), version=9)),
    ):
        assert other.view.digest != same


def test_the_dead_have_no_part() -> None:
    found = view(*ring("a", "b"), *ring("c", "d", job="k"), dead="c")
    assert found.view.members == ("a", "b", "d")
    assert found.index.jobs["k"].hosts == ("d",)
    assert {flow.src for flow in found.view.flows} == {"a", "b", "d"}


def test_records_of_nobody_have_none_either() -> None:
    assert view(profile("ghost", "j")).view.jobs == ()


def test_a_claimant_that_nobody_talks_to_changes_nothing() -> None:
    base = ring("a", "b", "c")
    liar = [
        member("z"),
        profile("z", "j", 8 * 4e16 * 0.5, to=(("a", 1e18), ("b", 1e18))),
        record("z", "flows", "j", Flows((FlowEntry("f", "a", 1e18),))),
    ]
    assert view(*base, *liar).view.digest == view(*base).view.digest


def test_one_host_does_not_decide_a_links_capacity() -> None:
    shared = [record(name, "links", "", Links((("up", 5.0),))) for name in ("x", "y")]
    low = record("z", "links", "", Links((("up", 0.0),)))
    base = [
        *(member(name) for name in "axyz"),
        profile("a", "j"),
        record("a", "flows", "j", Flows((FlowEntry("f", "b", 1e9),))),
        record("a", "paths", "b", Paths((PathEntry("p", ("up",)),))),
    ]
    third = record("a", "links", "", Links((("up", 6.0),)))
    assert view(*base, third, *shared, low).view.links == (("up", 5.0),)


def test_paths_over_unknown_links_are_left_out() -> None:
    base = [
        member("a"),
        profile("a", "j"),
        record("a", "flows", "j", Flows((FlowEntry("f", "b", 1e9),))),
        record("a", "paths", "b", Paths((PathEntry("p", ("up",)), PathEntry("q", ("no",))))),
        record("a", "links", "", Links((("up", 1e9), ("unused", 1e9)))),
    ]
    found = view(*base).view
    assert [path.id for path in found.tables[0].paths] == ["p"]
    assert found.links == (("up", 1e9),)
    assert plan(found, Options(simulations=0)).flows[0].path == "p"


def test_a_flow_that_two_jobs_claim_keeps_nobody_from_planning() -> None:
    twice = Flows((FlowEntry("f", "b", 1e9),))
    base = [
        *(member(name) for name in "ab"),
        *(profile("a", job, to=(("b", 1e9),)) for job in ("j", "k")),
        *(record("a", "flows", job, twice) for job in ("j", "k")),
    ]
    found = view(*base).view
    assert [(flow.id, flow.job) for flow in found.flows] == [("a/f", "j")]
    assert plan(found, Options(simulations=0)).digest == found.digest


def test_what_was_merged_before_changes_nothing() -> None:
    store = Store(Settings())
    for item in [*(member(name) for name in "ab"), profile("a", "j"), profile("b", "k")]:
        store.put(held(item), 0.0)
    index = ViewIndex()
    first = build(store, (), "rules", index)
    assert index.jobs.keys() == {"j", "k"}
    kept = index.jobs["k"]
    store.put(held(profile("a", "j", 3e12, version=3)), 0.0)
    again = build(store, (), "rules", index)
    assert index.jobs["k"] is kept
    assert same(again, build(store, (), "rules"))
    assert again.digest != first.digest
    alone = build(store, {"b"}, "rules", index)
    assert same(alone, build(store, {"b"}, "rules"))
    assert index.jobs.keys() == {"j"}


NAMES = st.sampled_from(["a", "b", "c", "d"])
JOBS = st.sampled_from(["j", "k"])
LINKS = st.sampled_from(["l0", "l1", "l2"])
VOLUMES = st.floats(0, 1e18)
CLAIMS = st.one_of(
    st.builds(
        lambda host, job, work, to: profile(host, job, work, to=tuple(to.items())),
        NAMES,
        JOBS,
        st.floats(0, 1e17),
        st.dictionaries(NAMES, VOLUMES, max_size=3),
    ),
    st.builds(
        lambda host, job, flows: record(
            host, "flows", job, Flows(tuple(FlowEntry(i, d, v) for i, (d, v) in flows.items()))
        ),
        NAMES,
        JOBS,
        st.dictionaries(st.sampled_from(["f", "g"]), st.tuples(NAMES, VOLUMES)),
    ),
    st.builds(
        lambda host, to, paths: record(
            host, "paths", to, Paths(tuple(PathEntry(i, tuple(w)) for i, w in paths.items()))
        ),
        NAMES,
        NAMES,
        st.dictionaries(st.sampled_from(["p", "q"]), st.lists(LINKS, max_size=3)),
    ),
    st.builds(
        lambda host, links: record(host, "links", "", Links(tuple(links.items()))),
        NAMES,
        st.dictionaries(LINKS, st.floats(0, 1e12)),
    ),
)


@given(st.lists(CLAIMS, max_size=20))
@settings(max_examples=100, deadline=None)
def test_whatever_members_claim_there_is_a_plan(claims: list[Record]) -> None:
    found = view(*(member(name) for name in "abcd"), *claims)
    made = plan(found.view, Options(simulations=0))
    assert made.digest == found.view.digest
    assert {one.job for one in made.jobs} == {job.job for job in found.view.jobs}


@given(st.lists(st.tuples(CLAIMS, st.sampled_from(["", "", "b"]), st.booleans()), max_size=25))
@settings(max_examples=80, deadline=None)
def test_an_updated_view_equals_one_made_anew(
    claims: list[tuple[Record, str, bool]],
) -> None:
    store, index = Store(Settings()), ViewIndex()
    for name in "abcd":
        store.put(held(member(name)), 0.0)
    version = 9
    for claim, dead, withdrawn in claims:
        for payload in (claim.payload, b"")[: 1 + withdrawn]:
            version += 1
            again = record(claim.writer, claim.kind, claim.key, payload, version=version)
            store.put(held(again), 0.0)
            found, anew = build(store, {dead}, "r", index), build(store, {dead}, "r")
            # Asked for last, so that what is remembered of it is used.
            assert neighbours(found, "d", 3) == neighbours(anew, "d", 3)
            assert same(found, anew)
            neighbours(found, "d", 3)
    store.forget("a", 1.0)
    assert same(build(store, (), "r", index), build(store, (), "r"))


def test_unchanged_tables_and_flows_stay_the_same_objects() -> None:
    store, index = Store(Settings()), ViewIndex()
    for item in ring("a", "b"):
        store.put(held(item), 0.0)
    first = build(store, (), "r", index).view
    store.put(held(profile("a", "j", 3e12, version=9, to=(("b", 1e9),))), 0.0)
    second = build(store, (), "r", index).view
    assert first.digest != second.digest
    assert len(first.tables) == len(first.flows) == 2
    assert all(one is other for one, other in zip(first.tables, second.tables, strict=True))
    assert all(one is other for one, other in zip(first.flows, second.flows, strict=True))


def test_neighbours_share_jobs_or_links() -> None:
    found = view(*ring("a", "b"), *ring("c", "d", job="k"), *ring("e", "f", "a", job="m"))
    assert neighbours(found, "c", 10) == ("d",)
    assert neighbours(found, "new", 10, {"k", "unheard of"}) == ("c", "d")
    assert set(neighbours(found, "a", 10)) >= {"b", "e", "f"}
    shared = view(*ring("a", "b"), *ring("c", "b", job="k"))
    assert "c" in neighbours(shared, "a", 10)


def test_too_many_neighbours_are_thinned_out_in_the_same_way() -> None:
    hosts = [f"h{index:02}" for index in range(40)]
    found = view(*ring(*hosts))
    assert len(neighbours(found, "h00", 8)) == 8
    assert neighbours(found, "h00", 8) == neighbours(view(*reversed(ring(*hosts))), "h00", 8)
