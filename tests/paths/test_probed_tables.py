"""Names of links and paths."""

from __future__ import annotations

import pytest

from hostcc.paths import probed_tables
from hostcc.paths.probed_tables import LinkNames
from hostcc.paths.search import SILENT, Hops

pytestmark = pytest.mark.unit

SRC, DST = "198.18.0.2", "198.18.1.2"


def test_a_link_is_called_the_same_by_whoever_crosses_it() -> None:
    one = probed_tables.links_of(SRC, DST, ("gw1", "spine-a", "leaf2-a"))
    other = probed_tables.links_of("198.18.0.6", DST, ("gw2", "spine-a", "leaf2-a"))
    assert one == (f"{SRC}>", ">spine-a", ">leaf2-a", f">{DST}")
    assert one[1:] == other[1:]
    assert one[0] != other[0]


def test_routers_that_answer_from_one_address() -> None:
    links = probed_tables.links_of(SRC, DST, ("leaf1", "spine1", "leaf2"), LinkNames.ROUTER)
    assert links == (f"{SRC}>", "leaf1>spine1", "spine1>leaf2", f">{DST}")


def test_silent_hops_are_never_taken_for_shared() -> None:
    one = probed_tables.links_of(SRC, DST, ("leaf1", SILENT, "leaf2"))
    other = probed_tables.links_of(SRC, "198.18.2.2", ("leaf1", SILENT, "leaf2"))
    assert one[1] != other[1]


def test_ids_do_not_depend_on_ports_or_time() -> None:
    hops: Hops = ("leaf1", "spine1", "leaf2")
    one = probed_tables.table_of(SRC, DST, {hops: (3, 1)}, 1.0)
    other = probed_tables.table_of(SRC, DST, {hops: (7,)}, 2.0)
    assert one.paths[0].id == other.paths[0].id
    assert one.paths[0].ports == (1, 3)
