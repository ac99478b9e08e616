"""Turns across two agents that gossip over real sockets on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.coord.core.payloads import WAITING, ProfilingClaim
from hostcc.daemon.profiling.turns import cluster_turns
from hostcc.daemon.profiling.turns.cluster_turns import READ_IDLE_S, ClusterTurns
from hostcc.daemon.profiling.turns.local import RemoteTurns, tie_break_hash
from hostcc.daemon.profiling.turns.turn_order import SETTLE_S
from tests.daemon.gossip.test_cluster import Host, two
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.asyncio, pytest.mark.slow]

LONGEST = 30.0
FIRST, SECOND = sorted(("j", "k"), key=tie_break_hash)
WAITS, TURN = ProfilingClaim(turn=False), ProfilingClaim(turn=True)


class Agent:
    """What an agent does once a turn; its clock goes on with each."""

    def __init__(self, host: Host) -> None:
        self.host, self.now_s = host, 100.0
        self.elsewhere = ClusterTurns(host.cluster)

    async def heed(
        self, own: dict[str, ProfilingClaim], after_s: float = READ_IDLE_S
    ) -> RemoteTurns:
        self.now_s += after_s
        self.elsewhere.tell(own)
        self.elsewhere.heed(own, own, self.now_s, LONGEST)
        reading = self.elsewhere.__dict__["_reading"]
        if reading is not None:
            await reading
        return self.elsewhere.heed(own, own, self.now_s, LONGEST)


def says(host: Host, writer: str, job: str) -> bool:
    assert host.service is not None
    held = host.service.node.store.get(writer, (WAITING, job))
    return held is not None and not held.withdrawn


@pytest.fixture(autouse=True)
def _however_long_a_read_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_turns, "MAX_TIME_FRACTION", float("inf"))


async def test_a_job_elsewhere_is_waited_for_until_it_is_known(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        a, b = Agent(one), Agent(other)
        a.elsewhere.tell({FIRST: WAITS, SECOND: WAITS})
        await eventually(lambda: says(other, "a", FIRST) and says(other, "a", SECOND))
        assert SECOND in (await b.heed({SECOND: WAITS})).behind
        assert SECOND in (await b.heed({SECOND: WAITS})).behind
        await a.heed({FIRST: TURN, SECOND: WAITS})
        assert SECOND in (await a.heed({FIRST: TURN, SECOND: WAITS})).behind
        assert a.elsewhere.crowded(FIRST)
        a.elsewhere.tell({SECOND: WAITS})
        await eventually(lambda: not says(other, "a", FIRST))
        await b.heed({SECOND: WAITS})
        assert (await b.heed({SECOND: WAITS}, SETTLE_S)).behind == frozenset()


async def test_a_turn_that_begins_elsewhere_is_joined(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        a, b = Agent(one), Agent(other)
        await b.heed({})
        a.elsewhere.tell({FIRST: TURN})
        await eventually(lambda: says(other, "a", FIRST))
        heed = await b.heed({FIRST: WAITS})
        assert heed == RemoteTurns(since={FIRST: b.now_s})


async def test_what_a_host_that_stops_has_said_is_withdrawn(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        a = Agent(one)
        a.elsewhere.tell({FIRST: TURN})
        await eventually(lambda: says(other, "a", FIRST))
        a.elsewhere.stop()
        await eventually(lambda: not says(other, "a", FIRST))


async def test_without_gossip_nobody_is_waited_for() -> None:
    for elsewhere in (ClusterTurns(), ClusterTurns(Host(None).cluster)):
        elsewhere.tell({FIRST: WAITS})
        assert elsewhere.heed({FIRST: WAITS}, [FIRST], 1.0, LONGEST) == RemoteTurns()
        assert not elsewhere.crowded(FIRST)
        elsewhere.stop()
