"""Turns of jobs across hosts: what others say of them is heard, and they are told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping

from hostcc.coord.core.payloads import WAITING, ProfilingClaim
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.profiling.turns import claims, order
from hostcc.daemon.profiling.turns.claims import ClaimSnapshot, Said
from hostcc.daemon.profiling.turns.local import RemoteTurns
from hostcc.daemon.profiling.turns.order import Place
from hostcc.log import get_logger

log = get_logger("turns")

LISTEN_S, SELDOM_S = 1.0, 5.0
"""Between looks at what others say, while a job waits here and while none does, seconds..."""
SHARE = 50.0
"""...and they take at most the this-manieth part of the time."""


class ClusterTurns:
    """Nothing is heard and nobody told while this host does not gossip."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        self._cluster = cluster
        self._heard: ClaimSnapshot | None = None
        self._moment: object = None
        """Of the cluster, when it was listened to last."""
        self._listened_s = self._took_s = 0.0
        self._listening: asyncio.Task[None] | None = None
        self._places: dict[str, Place] | None = None

    def heed(
        self,
        own: Mapping[str, ProfilingClaim],
        live: Collection[str],
        now_s: float,
        longest_s: float,
    ) -> RemoteTurns:
        """What the jobs that wait here have to heed.

        `own`: what is told of them; `live`: all jobs that are here.
        """
        moment = self._cluster.moment if self._cluster is not None else None
        if self._cluster is None or moment is None:
            self._forget()
            return RemoteTurns()
        wait_s = max(LISTEN_S if own else SELDOM_S, SHARE * self._took_s)
        due = not self._listened_s or now_s >= self._listened_s + wait_s
        idle = self._listening is None or self._listening.done()
        if due and idle and moment != self._moment:
            self._moment, self._listened_s = moment, now_s
            look = self._listen(self._cluster.said(), self._cluster.name, set(own))
            self._listening = asyncio.get_running_loop().create_task(look)
        if self._heard is None:
            return RemoteTurns(behind=frozenset(own))
        now = claims.with_own(self._heard, self._cluster.name, own, live)
        self._places = order.follow(self._places, now, now_s, longest_s)
        return order.others(self._places, now_s, longest_s)

    def tell(self, own: Mapping[str, ProfilingClaim]) -> None:
        """Say which jobs wait here, and which one is being profiled."""
        if self._cluster is not None:
            self._cluster.tell(WAITING, own)

    def crowded(self, job: str) -> bool:
        """Whether a job that waits here shares a host or a link with any other."""
        return self._heard is not None and job in self._heard.crowded

    def stop(self) -> None:
        """Nothing waits here any more."""
        self.tell({})
        self._forget()

    async def _listen(self, said: Said, own: str, waiting: Collection[str]) -> None:
        began_s = time.monotonic()
        try:
            self._heard = await asyncio.to_thread(claims.gather, said, own, waiting)
        except Exception as error:  # noqa: BLE001 - what was heard before stays
            log.defect("what others say of turns could not be worked out", error)
        self._took_s = time.monotonic() - began_s

    def _forget(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        self._heard = self._moment = self._listening = self._places = None
        self._listened_s = self._took_s = 0.0
