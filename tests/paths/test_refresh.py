"""When a table is looked at again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.paths import refresh
from hostcc.paths.drawing import drawing
from hostcc.paths.refresh import ProbeDetail, Refresh, RefreshSettings
from hostcc.paths.search import Hops, SearchResult, SearchSettings
from tests.paths.network import Network, play

pytestmark = pytest.mark.unit

WAYS: list[Hops] = [("leaf1", f"spine{n}", "leaf2") for n in range(4)]


def searched(network: Network) -> SearchResult:
    return play(network)[0]


def spot(network: Network, found: SearchResult) -> SearchResult:
    ports = refresh.spot_ports(found)
    settings = refresh.spot_settings(SearchSettings(), len(ports))
    return play(network, ports, settings)[0]  # type: ignore[arg-type]


def test_a_spot_check_of_an_unchanged_network_is_quiet_and_cheap() -> None:
    network = Network(WAYS, seed=1)
    found = searched(network)
    looked = spot(network, found)
    assert refresh.changes(found, looked, RefreshSettings()) == ()
    # Each of four distances and six routers is asked for twice.
    assert looked.probes <= 4 * 3 + 4 + 4 + (4 + 6)
    assert looked.probes < found.probes / 2


def test_a_path_that_went_a_hop_that_fell_silent_a_jump() -> None:
    network = Network(WAYS, seed=1)
    found = searched(network)
    rehashed = Network(WAYS[:3], seed=1)
    assert any("another way" in why for why in _changes(found, spot(rehashed, found)))
    silent = Network(WAYS, seed=1, silent=frozenset({"spine2"}))
    assert len(_changes(found, spot(silent, found))) == 1
    slow = replace(spot(network, found), rtt_s=dict.fromkeys(found.paths, 0.02))
    assert len(_changes(found, slow)) == 4
    assert "20.0 ms instead of 1.0 ms" in _changes(found, slow)[0]


def test_a_lost_answer_is_no_other_way() -> None:
    network = Network([("leaf1", f"spine{n}", f"leaf2-{n}") for n in range(2)], seed=1)
    found = searched(network)
    network.mute = lambda _, probe: probe.ttl == 2 and probe.port == refresh.spot_ports(found)[0]
    reasons = _changes(found, spot(network, found))
    assert [why.partition(": ")[2] for why in reasons] == ["other hops answer than before"]


def _changes(found: SearchResult, looked: SearchResult) -> tuple[str, ...]:
    return refresh.changes(found, looked, RefreshSettings())


def test_timetable() -> None:
    network = Network(WAYS, seed=1)
    found = searched(network)
    plan = Refresh(RefreshSettings(spot_s=10, full_s=600, again_s=2))
    assert plan.due(0.0) is ProbeDetail.FULL
    plan.searched(found, 5.0)
    assert plan.due(14.9) is ProbeDetail.NOT
    assert plan.due(15.0) is ProbeDetail.SPOT
    plan.spotted(spot(network, found), 15.1)
    assert plan.due(20.0) is ProbeDetail.NOT
    plan.hint(["a link went"])
    assert plan.due(20.0) is ProbeDetail.FULL
    plan.searched(found, 21.0)
    plan.hint(["a link went"])
    assert plan.due(22.0) is ProbeDetail.NOT  # not again at once
    assert plan.due(23.0) is ProbeDetail.FULL
    plan.searched(found, 23.0)
    assert plan.due(623.0) is ProbeDetail.FULL


def test_drawing_shows_every_path_once() -> None:
    shown = drawing("A", "B", {way: f"id{n}" for n, way in enumerate(WAYS)})
    assert shown.count("\n") == 3
    assert shown.count("leaf1") == shown.count("leaf2") == 1
    for n in range(4):
        assert f"spine{n}" in shown
        assert f"[id{n}]" in shown
    assert drawing("A", "B", {("x",): "i"}) == "A - x - B   [i]"
    assert drawing("A", "B", {}) == "A ... B"
    uneven = drawing("A", "B", {("x",): "i", ("x", "y"): "j"})
    assert "(direct)" in uneven
