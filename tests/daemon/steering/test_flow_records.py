"""What is told of flows, paths and links, and that it stays within bounds."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from hostcc.config.sections.paths import LinkConfig, PathsConfig
from hostcc.coord.core.payloads import MAX_FLOWS, MAX_LINKS, Flows, encode
from hostcc.daemon.steering import flow_records
from hostcc.daemon.steering.elephants import Connection, Elephant
from hostcc.daemon.steering.flow_records import MAX_PUBLISH_DELAY_S, MBIT, FarEnds
from hostcc.daemon.steering.nics import Nic
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.daemon.steering.steering_state import SteeringState, target_of
from hostcc.model import Path, PathTable
from hostcc.paths.steering_messages import FlowKey

pytestmark = pytest.mark.unit

NICS = (Nic("eth0", ("10.0.0.1",), 1e9),)
ENDS = {("10.0.0.1", "10.0.0.2"): "b"}


def picture(count: int = 1) -> SteeringState:
    made = SteeringState(nics=NICS)
    for number in range(count):
        key = FlowKey("10.0.0.1", "10.0.0.2", 40000 + number, 5301)
        one = Connection("train", key, 10**9, 0.001, 0.001, 10**6, 0, 0)
        made.elephants[key] = Elephant(one, "b", 1e6 + number)
        target = target_of(key)
        made.known.setdefault(target, TargetPaths(target)).take(
            PathTable(
                "10.0.0.1", "10.0.0.2",
                (Path("p1", ("10.0.0.1>", ">s1", ">10.0.0.2"), (40000, 61000)),
                 Path("p2", ("10.0.0.1>", ">s2", ">10.0.0.2"), (61001,))),
            ), 1.0, 0.0, "",
        )  # fmt: skip
    return made


def test_flows_are_told_with_the_path_that_they_are_on() -> None:
    seen = picture()
    (entry,) = flow_records.flows(seen, ENDS, {})["train"].flows
    assert (entry.dst, entry.path, entry.src_port, entry.elephant) == ("b", "p1", 40000, True)
    seen.wire_ports = {next(iter(seen.elephants)): 61001}
    assert flow_records.flows(seen, ENDS, {})["train"].flows[0].path == "p2"


def test_flows_whose_path_is_about_to_be_known_are_told_then() -> None:
    seen = picture(3)
    _, *others = seen.elephants
    since = dict.fromkeys(seen.elephants, 10.0) | {others[1]: 7.0}
    later = flow_records.soon(seen, since, 10.0 + MAX_PUBLISH_DELAY_S - 0.1)
    assert later == {others[0]}
    told = flow_records.flows(seen, ENDS, {}, later)["train"].flows
    assert [(entry.src_port, entry.path) for entry in told] == [(40000, "p1"), (40002, "")]
    assert flow_records.soon(seen, since, 10.0 + MAX_PUBLISH_DELAY_S) == frozenset()


def test_noise_changes_nothing() -> None:
    seen = picture()
    first = flow_records.flows(seen, ENDS, {})
    (key,) = seen.elephants
    one = seen.elephants[key]
    seen.elephants[key] = Elephant(one.connection, "b", one.bytes * 1.03)
    assert flow_records.flows(seen, ENDS, first) == first


def test_of_too_many_flows_the_largest_are_told() -> None:
    told = flow_records.flows(picture(MAX_FLOWS + 10), ENDS, {})["train"]
    assert isinstance(told, Flows)
    assert len(told.flows) == MAX_FLOWS
    assert min(entry.src_port for entry in told.flows) == 40010


def test_paths_by_end_whatever_the_port() -> None:
    told = flow_records.paths(picture().known.values(), ENDS)
    assert [path.id for path in told["b"].paths] == ["p1", "p2"]
    assert flow_records.paths(picture().known.values(), {}) == {}


def test_ports_that_were_told_stay_while_they_serve() -> None:
    (known,) = picture().known.values()
    before = flow_records.paths([known], ENDS)
    assert [entry.ports for entry in before["b"].paths] == [(40000, 61000), (61001,)]

    def take(*ports: int) -> None:
        ways = (Path("p1", ("10.0.0.1>", ">s1", ">10.0.0.2"), ports), known.table.paths[1])  # type: ignore[union-attr]
        known.take(PathTable("10.0.0.1", "10.0.0.2", ways), 1.0, 0.0, "")

    take(35000, 40000, 61000, 61002, 61003)
    now = flow_records.paths([known], ENDS, before.get)
    assert [entry.ports for entry in now["b"].paths] == [(40000, 61000, 35000, 61002), (61001,)]
    take(34000, 35000, 40000, 61000, 61002, 61003)
    assert flow_records.paths([known], ENDS, now.get) == now
    take(61000, 61003)
    assert flow_records.paths([known], ENDS, now.get)["b"].paths[0].ports == (61000, 61003)


def test_capacities() -> None:
    config = PathsConfig(
        fabric_mbit_per_s=200, link=(LinkConfig(link=">s2", mbit_per_s=50),)
    )  # fmt: skip
    told = flow_records.paths(picture().known.values(), ENDS)
    assert dict(flow_records.links(told.values(), NICS, config).links) == {
        "10.0.0.1>": 1e9, ">10.0.0.1": 1e9, ">10.0.0.2": 1e9, ">s1": 200 * MBIT,
        ">s2": 50 * MBIT,
    }  # fmt: skip
    plain = dict(flow_records.links(told.values(), NICS, PathsConfig()).links)
    assert plain[">s1"] == plain[">10.0.0.2"] == 1e9


def test_links_stay_within_bounds() -> None:
    seen = picture()
    (known,) = seen.known.values()
    paths = tuple(Path(f"p{n}", ("10.0.0.1>", f">s{n}", f">t{n}"), (n + 1,)) for n in range(60))
    known.take(PathTable("10.0.0.1", "10.0.0.2", paths), 1.0, 0.0, "")
    told = flow_records.paths([known], ENDS)
    links = flow_records.links(told.values(), NICS, PathsConfig())
    assert len(links.links) <= MAX_LINKS
    assert any(fnmatchcase(link, ">s*") for link, _ in links.links)
    assert len(encode(told["b"])) < 16 << 10


def test_ends_are_members_and_further_addresses_have_names_of_their_own() -> None:
    ends, one, two = FarEnds(), ("10.0.0.1", "10.0.0.2"), ("10.0.1.1", "10.0.1.2")
    assert ends.update({two: "b"}) == {two: "b"}
    both = ends.update({one: "b", two: "b"})
    assert both[two] == "b"
    assert both[one].startswith("b:")
    assert ends.update({one: "b"}) == {one: both[one]}
    assert ends.update({one: "c"}) == {one: "c"}
