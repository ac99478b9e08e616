"""Placements: nobody's GPU is given twice, all or nothing, first come first served, repeatable."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.sim import fabrics
from hostcc.sim.placement import METHODS, Placed, Request, Site, place

pytestmark = pytest.mark.unit

RATES = {"nic": 1.0, "agg": 1.0}
SITES = (
    Site.of(fabrics.two_layer("one pod", 8, 4, 2, 4, RATES)),
    Site((0, 0, 1, 1, 2, 2, 3, 3), (0, 0, 0, 0, 1, 1, 1, 1)),
    Site((0, 0, 0, 1, 2), (0, 0, 0, 0, 1)),
)
PARTS = st.lists(st.integers(1, 9), min_size=1, max_size=6).map(
    lambda parts: tuple(sorted(parts, reverse=True))
)
JOBS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 20), PARTS, st.floats(0, 1)), max_size=25
)


def requests(jobs: list[tuple[int, int, tuple[int, ...], float]]) -> list[Request]:
    now, found = 0, []
    for later, minutes, parts, duty in jobs:
        now += later
        found.append(Request(now, minutes, parts, duty))
    return found


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(METHODS)), st.sampled_from(SITES), JOBS, st.integers(0, 3))
def test_no_gpu_twice_all_or_nothing_in_order(
    method: str,
    site: Site,
    jobs: list[tuple[int, int, tuple[int, ...], float]],
    seed: int,
) -> None:
    asked = requests(jobs)
    got = place(site, asked, method, seed)
    assert got == place(site, asked, method, seed)
    before = 0
    for request, one in zip(asked, got, strict=True):
        possible = len(request.parts) <= len(site.tor) and request.parts[0] <= 8
        assert (one is not None) == possible
        if one is None:
            continue
        assert one.minute >= max(before, request.minute)  # nobody overtakes
        before = one.minute
        assert len({host for host, _ in one.hosts}) == len(request.parts)
        assert sorted((gpus for _, gpus in one.hosts), reverse=True) == list(request.parts)
    for minute in {one.minute for one in got if one is not None}:
        used = [0] * len(site.tor)
        for request, one in zip(asked, got, strict=True):
            if one is not None and one.minute <= minute < one.minute + request.minutes:
                for host, gpus in one.hosts:
                    used[host] += gpus
        assert max(used) <= 8


@pytest.mark.parametrize("method", sorted(METHODS))
def test_who_finds_no_room_waits_and_the_next_waits_behind(method: str) -> None:
    site = SITES[2]
    whole = Request(0, 10, (8,) * 5)
    got = place(site, [whole, Request(1, 5, (8, 8)), Request(2, 5, (1,))], method, 0)
    assert [one.minute for one in got if one is not None] == [0, 10, 10]


def hosts(found: Placed | None) -> list[int]:
    assert found is not None
    return [host for host, _ in found.hosts]


def test_pod_stays_in_one_pod_and_none_does_not() -> None:
    site = SITES[1]
    pods = {
        method: [
            {site.pod[host] for host in hosts(place(site, [Request(0, 1, (8,) * 4)], method, s)[0])}
            for s in range(20)
        ]
        for method in ("pod", "none")
    }
    assert {len(own) for own in pods["pod"]} == {1}
    assert {len(own) for own in pods["none"]} == {1, 2} or {len(own) for own in pods["none"]} == {2}


def test_a_job_beyond_a_pod_gets_hosts_anywhere() -> None:
    assert len(hosts(place(SITES[1], [Request(0, 1, (8,) * 6)], "pod", 0)[0])) == 6


def test_packed_takes_the_first_hosts_with_room() -> None:
    got = place(SITES[1], [Request(0, 9, (4,)), Request(0, 9, (8, 8)), Request(0, 9, (4,))],
                "packed", 0)  # fmt: skip
    assert [hosts(one) for one in got] == [[0], [1, 2], [0]]


def test_hived_takes_the_smallest_cell_and_keeps_large_ones_whole() -> None:
    got = place(
        SITES[1],
        [
            Request(0, 9, (8,)),
            Request(0, 9, (8, 8)),  # a ToR of its own, not the half that is left
            Request(0, 9, (8,)),  # that half
            Request(0, 9, (8, 8, 8)),  # no ToR has three hosts: the other pod
            Request(0, 9, (4,)),
            Request(0, 9, (2,)),  # beside the four
        ],
        "hived",
        0,
    )
    assert [hosts(one) for one in got] == [[0], [2, 3], [1], [4, 5, 6], [7], [7]]


def test_muri_avoids_those_who_send_much() -> None:
    site = SITES[1]
    loud, quiet = Request(0, 9, (8,) * 3, 0.9), Request(0, 9, (4, 4, 4), 0.1)
    got = place(site, [loud, quiet, Request(0, 9, (4, 4, 4), 0.9)], "muri", 0)
    tors = [{site.tor[host] for host in hosts(one)} for one in got]
    assert not tors[0] & tors[1]  # there is room where nobody sends
    # A single ToR shares nothing, however loud its jobs are.
    assert len({site.tor[h] for h in hosts(place(site, [loud, Request(0, 9, (8, 8), 1.0)],
                                                 "muri", 0)[1])}) == 1  # fmt: skip
