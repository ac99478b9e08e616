"""Ways of sharing that `hostcc compare` borrows for a block of time, here and on other hosts.

What was in force before comes back when nobody asks for longer, and a choice that somebody else
makes meanwhile stays: a comparison that is killed leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hostcc.answers.host import Borrowing
from hostcc.answers.parts import ComparePart
from hostcc.daemon.api.credentials import Peer
from hostcc.daemon.api.messages import MAX_TOGETHER_S, Borrow
from hostcc.daemon.enforcement import Engine
from hostcc.daemon.gates.gates_task import Gates
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.supervisor import Host
from hostcc.errors import HostccError, InputError
from hostcc.log import get_logger
from hostcc.mltcp.params import Mode
from hostcc.model import Difference
from hostcc.system.validate import UNDECODABLE

log = get_logger("compare")

LEASE_S = 15.0
"""A borrowed mode ends when nobody has asked for it for so long."""
MAX_TOLD = 256
"""Hosts that are told; a comparison of more is not one of a job."""
TOPIC = "compare"


class BorrowNote(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a host that compares asks of the others."""

    mode: Mode | None
    """None: what was before."""
    alike: bool
    together_s: Annotated[float, Meta(ge=0, le=MAX_TOGETHER_S)]


@dataclass(frozen=True)
class _Loan:
    engine: Engine
    before: tuple[Mode, dict[str, float]]
    given: tuple[Mode, dict[str, float]]
    who: str


class BorrowedMode:
    """Gives a mode on loan, and takes it back."""

    name = "compare"
    every_s = 1.0

    def __init__(
        self,
        host: Host,
        cluster: Cluster,
        gates: Gates,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._cluster, self._gates, self._clock = host, cluster, gates, clock
        self._loan: _Loan | None = None
        self._until_s = 0.0

    def disabled_reason(self) -> str:
        """Say why nothing can be borrowed; empty: it can."""
        return "nothing is changed on this host" if self._host.engine is None else ""

    def start(self) -> None:
        """Listen to hosts that compare."""
        self._cluster.listen(TOPIC, self._hear)

    async def tick(self) -> None:
        """Take the mode back from whoever does not ask any more."""
        if self._loan is not None and self._clock() >= self._until_s:
            log.info("comparison ended", reason=f"nobody asked for {LEASE_S:g} s")
            await self._give_back()

    async def stop(self) -> None:
        """Take it back."""
        self._cluster.listen(TOPIC, None)
        await self._give_back()

    def verify(self) -> list[Difference]:
        """Find nothing: how jobs share is verified where jobs are."""
        return []

    def view(self) -> ComparePart:
        """Show who compares."""
        loan = self._loan
        return ComparePart(mode=str(loan.given[0]), by=loan.who) if loan else ComparePart()

    async def borrow(self, request: Borrow, peer: Peer) -> Borrowing:
        """Answer `borrow`.  Raises HostccError when nothing can be changed, or somebody else has
        chosen a mode."""
        note = BorrowNote(request.mode, request.alike, request.together_s)
        others = sorted(self._cluster.records().keys() - {self._cluster.name})
        if len(others) > MAX_TOLD:
            raise HostccError(f"expected at most {MAX_TOLD} other hosts, got {len(others)}")
        engine = self._host.engine
        if engine is None:
            raise HostccError("nothing is changed on this host: no mode can be compared")
        together = self._apply(engine, note, f"hostcc compare, by uid {peer.uid}, pid {peer.pid}")
        data = msgspec.msgpack.encode(note)
        told = sum(self._cluster.send(other, TOPIC, data) for other in others)
        self._cluster.flush()
        await engine.table.moved()
        return Borrowing(
            mode=str(engine.table.mode), hosts_told=told, together=together, lease_s=LEASE_S
        )

    def _hear(self, peer: str, data: bytes) -> None:
        try:
            note = msgspec.msgpack.decode(data, type=BorrowNote)
        except UNDECODABLE as error:
            raise InputError(f"a note of {TOPIC}: {error}") from None
        engine = self._host.engine
        if engine is None:
            return
        try:
            self._apply(engine, note, f"hostcc compare, on {peer}")
        except HostccError as error:
            log.warning("not compared", peer=peer, reason=str(error))

    def _apply(self, engine: Engine, note: BorrowNote, who: str) -> bool:
        """Lend, lend for longer, or take back; returns whether jobs will begin together.

        Raises HostccError when somebody else has chosen a mode.
        """
        if note.mode is None:
            self._take_back()
            return False
        loan, table = self._loan, engine.table
        if loan is not None and not self._untouched(loan):
            self._loan = None
            raise HostccError("somebody else has chosen how jobs share; the comparison ends")
        weights = dict.fromkeys(table.jobs, 1.0) if note.alike else {}
        given = note.mode, weights
        before = loan.before if loan is not None else (table.mode, dict(table.weights))
        if loan is None or loan.given != given:
            table.share(*given, who)
        self._loan = _Loan(engine, before, given, who)
        self._until_s = self._clock() + LEASE_S
        return note.alike and self._gates.hold_together(note.together_s, LEASE_S)

    async def _give_back(self) -> None:
        engine = self._host.engine
        if self._take_back() and engine is not None:
            await engine.table.moved()

    def _take_back(self) -> bool:
        loan, self._loan = self._loan, None
        if loan is None or not self._untouched(loan):
            return False
        loan.engine.table.share(*loan.before, loan.who)
        return True

    def _untouched(self, loan: _Loan) -> bool:
        """Check that jobs share as lent, so nobody else has chosen."""
        table = loan.engine.table
        return loan.engine is self._host.engine and (table.mode, table.weights) == loan.given
