"""Placements of new jobs among running ones: the one that disturbs least comes first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.errors import InputError
from hostcc.model import ClusterView, Flow, Path, PathTable
from hostcc.schedule.candidates import Placement, rank
from hostcc.schedule.pair_tables import MAX_PATHS, PairTables
from hostcc.schedule.plan import Options
from tests.schedule.views import job

pytestmark = pytest.mark.unit


def way(src: str, dst: str, *links: str) -> PathTable:
    return PathTable(src, dst, (Path("-".join(links), links),))


# Hosts a, b, c, d send over one link, "thin", to x, or over another, "thick", to y.
TABLES = tuple(
    way(src, dst, f"{src}>", middle, f">{dst}")
    for src in "abc"
    for dst, middle in (("x", "thin"), ("y", "thick"))
)
LINKS = tuple(
    (link, 1.0) for link in ("thin", "thick", *(f"{src}>" for src in "abc"), ">x", ">y", ">z")
)
VIEW = ClusterView(
    (job("old", compute=0.1),), (Flow("f", "old", "a", "x", 1.0),), TABLES, LINKS, digest="d"
)
NEW = job("new", compute=0.1)


def placement(name: str, src: str, dst: str) -> Placement:
    return Placement(name, (Flow(f"{name}/0", "new", src, dst, 1.0),))


def test_the_placement_that_disturbs_nobody_comes_first() -> None:
    those = [placement("shared", "b", "x"), placement("apart", "b", "y")]
    found = rank(VIEW, [NEW], those, Options())
    assert (found.before, found.jobs) == (1.0, 1)
    apart, shared = found.placements
    assert (apart.name, apart.utilisation, apart.running) == ("apart", 1.0, 1.0)
    assert (apart.speeds, apart.slowed, apart.slowed_count) == ((("new", 1.0),), (), 0)
    assert shared.utilisation is not None
    assert shared.utilisation < 1.0


def test_jobs_that_are_slowed_down_are_named() -> None:
    much = replace(NEW, work=9.0)  # goes first
    (found,) = rank(VIEW, [much], [placement("shared", "b", "x")], Options()).placements
    (slowed,) = found.slowed
    assert (slowed.job, slowed.before, found.slowed_count) == ("old", 1.0, 1)
    assert slowed.after == found.running
    assert slowed.after < 1.0


def test_a_job_on_one_host_disturbs_nobody() -> None:
    (found,) = rank(VIEW, [NEW], [placement("inside", "b", "b")], Options()).placements
    assert (found.utilisation, found.speeds) == (1.0, (("new", 1.0),))


def test_placements_without_a_path_come_last() -> None:
    those = [placement("nowhere", "b", "q"), placement("shared", "b", "x")]
    found = rank(VIEW, [NEW], those, Options()).placements
    assert [one.name for one in found] == ["shared", "nowhere"]
    assert found[1].rejected == "no path is known from b to q"
    assert found[1].utilisation is None


def test_a_job_that_runs_is_not_new() -> None:
    with pytest.raises(InputError, match="old: expected a new one"):
        rank(VIEW, [job("old")], [], Options())


def test_in_an_empty_cluster() -> None:
    view = replace(VIEW, jobs=(), flows=())
    found = rank(view, [NEW], [placement("first", "b", "x")], Options())
    assert (found.before, found.jobs) == (None, 0)
    assert found.placements[0].utilisation == 1.0
    assert found.placements[0].running is None


def clos(racks: int, spines: int) -> list[PathTable]:
    """Tables from host h of each rack to host k of the first and of the next one."""
    return [
        PathTable(
            f"h{rack}",
            f"k{to}",
            tuple(
                Path(f"s{at}", (f"h{rack}>", f"up{rack}.{at}", f"down{at}.{to}", f">k{to}"))
                for at in range(spines)
            ),
        )
        for rack in range(racks)
        for to in sorted({0, (rack + 1) % racks} - {rack})
    ]


def test_paths_of_other_pairs_are_put_together() -> None:
    tables = PairTables(clos(4, 3))
    found = tables.table("h1", "k3")
    assert found is not None
    assert [path.links for path in found.paths] == [
        ("h1>", f"up1.{at}", f"down{at}.3", ">k3") for at in range(3)
    ]
    given = tables.table("h1", "k2")
    assert given is not None
    assert given.paths[0].id == "s0"  # as it is in the view
    assert tables.table("h0", "k9") is None
    assert tables.table("h9", "k0") is None
    assert len({path.id for path in found.paths}) == 3


def test_at_most_so_many_paths() -> None:
    found = PairTables(clos(4, MAX_PATHS + 9)).table("h1", "k3")
    assert found is not None
    assert len(found.paths) == MAX_PATHS


def test_no_links_no_paths() -> None:
    assert PairTables([PathTable("a", "b", (Path("p", ()),))]).table("a", "c") is None
