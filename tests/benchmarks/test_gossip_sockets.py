"""gossip-sockets on few members, in a hurry: kill -9, a cut wire, restarts."""

from __future__ import annotations

import pytest

from benchmarks.gossip_cluster import Cluster
from benchmarks.gossip_sockets import GROWTH, Event, Growth, Outcome, report

WITHIN_S = 120.0


@pytest.mark.kernel
def test_members_in_namespaces_survive_a_kill_and_a_cut_wire() -> None:
    with Cluster(4, quick=True) as cluster:
        names = cluster.names

        def agreed(*groups: list[str]) -> None:
            cluster.wait(lambda: all(cluster.agree(group) for group in groups), WITHIN_S)

        cluster.start(names)
        agreed(names)
        cluster.kill(names[3:])
        agreed(names[:3])
        cluster.start(names[3:])
        agreed(names)
        cluster.cut(apart=True)
        agreed(names[0::2], names[1::2])
        cluster.cut(apart=False)
        agreed(names)
        assert all(line.taken.descriptors < 60 for line in cluster.lines.values())


@pytest.mark.unit
def test_growth_is_judged_by_what_there_is_more_of() -> None:
    def outcome(more: float) -> Outcome:
        growth = [Growth(what, 10.0, 10.0 + most * more) for what, most in GROWTH.items()]
        return Outcome([Event("start", 1.0)], growth, 5, 0.5)

    assert report(6, 1.0, [outcome(0.5)], []).met
    record = report(6, 1.0, [outcome(2.0)], [])
    assert [goal.met for goal in record.goals] == [most == 0 for most in GROWTH.values()]
    assert not report(6, 1.0, [], ["run 1: it failed"]).met
