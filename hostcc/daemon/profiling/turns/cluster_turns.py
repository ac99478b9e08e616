"""Profiling turns across hosts: reads the other hosts' claims and publishes this host's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping

from hostcc.coord.core.payloads import WAITING, ProfilingClaim
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.profiling.turns import claims, turn_order
from hostcc.daemon.profiling.turns.claims import ClaimSnapshot, MemberRecords
from hostcc.daemon.profiling.turns.local import RemoteTurns
from hostcc.daemon.profiling.turns.turn_order import Place
from hostcc.log import get_logger

log = get_logger("turns")

READ_WAITING_S, READ_IDLE_S = 1.0, 5.0
"""Between two reads of the other hosts' records, while a job waits here and while none does,
seconds."""
MAX_TIME_FRACTION = 1 / 50
"""Reads take at most this share of wall time: after a long one the next comes later."""


class ClusterTurns:
    """This host's side of the turns; without gossip each host decides for itself."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        self._cluster = cluster
        self._snapshot: ClaimSnapshot | None = None
        self._moment: object = None
        """Of the cluster, when its records were read last."""
        self._read_s = self._took_s = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._places: dict[str, Place] | None = None

    def heed(
        self,
        own: Mapping[str, ProfilingClaim],
        live: Collection[str],
        now_s: float,
        longest_s: float,
    ) -> RemoteTurns:
        """What the turns of other hosts mean for the jobs that wait here.

        `own`: the claims of jobs that wait here; `live`: all jobs that are here.
        """
        moment = self._cluster.moment if self._cluster is not None else None
        if self._cluster is None or moment is None:
            self._forget()
            return RemoteTurns()
        wait_s = max(READ_WAITING_S if own else READ_IDLE_S, self._took_s / MAX_TIME_FRACTION)
        due = not self._read_s or now_s >= self._read_s + wait_s
        idle = self._reading is None or self._reading.done()
        if due and idle and moment != self._moment:
            self._moment, self._read_s = moment, now_s
            look = self._read(self._cluster.records(), self._cluster.name, set(own))
            self._reading = asyncio.get_running_loop().create_task(look)
        if self._snapshot is None:
            return RemoteTurns(behind=frozenset(own))
        now = claims.with_own(self._snapshot, self._cluster.name, own, live)
        self._places = turn_order.follow(self._places, now, now_s, longest_s)
        return turn_order.others(self._places, now_s, longest_s)

    def tell(self, own: Mapping[str, ProfilingClaim]) -> None:
        """Publish which jobs wait here, and which one is being profiled."""
        if self._cluster is not None:
            self._cluster.publish(WAITING, own)

    def crowded(self, job: str) -> bool:
        """Whether a job that waits here shares a host or a link with any other."""
        return self._snapshot is not None and job in self._snapshot.crowded

    def stop(self) -> None:
        """Withdraw this host's claims."""
        self.tell({})
        self._forget()

    async def _read(self, records: MemberRecords, own: str, waiting: Collection[str]) -> None:
        began_s = time.monotonic()
        try:
            self._snapshot = await asyncio.to_thread(claims.gather, records, own, waiting)
        except Exception as error:  # noqa: BLE001 - the last snapshot stays
            log.defect("what others say of turns could not be worked out", error)
        self._took_s = time.monotonic() - began_s

    def _forget(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._snapshot = self._moment = self._reading = self._places = None
        self._read_s = self._took_s = 0.0
