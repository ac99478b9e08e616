"""Packs what is to be sent to each peer into as few messages as the bounds allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hostcc.coord.core.message import (
    ENTRY_BYTES,
    JOB_DIGEST_BYTES,
    MAX_ENTRIES,
    MAX_MESSAGE,
    MAX_PROBES,
    MAX_RECORDS,
    PROTOCOL,
    Message,
    Outgoing,
    Probe,
    Record,
    ViewReport,
)
from hostcc.coord.core.record_checker import CheckedRecord
from hostcc.coord.core.repair import Exchange
from hostcc.coord.plan_difference import NO_PLAN, PlanDigests

ROOM = MAX_MESSAGE - 1024
"""Bytes for the sections of variable length; the rest is for the frame and short sections."""
RECORD_FRAME = 16
"""Bytes of msgpack framing around a record."""
PROBE_BYTES = 80
"""Upper estimate of an encoded probe, in bytes."""
JOB_FRAME = JOB_DIGEST_BYTES + 4
"""Bytes of a job's digest beside its name."""


@dataclass
class _Letter:
    records: list[Record] = field(default_factory=list)
    pings: list[int] = field(default_factory=list)
    acks: list[int] = field(default_factory=list)
    clock_ns: int = 0
    probes: list[Probe] = field(default_factory=list)
    entries: bytes = b""
    leaves: bytes = b""
    buckets: bytes = b""
    wanted: bytes = b""
    holding: ViewReport | None = None
    plan: PlanDigests = NO_PLAN
    size: int = 0


class Outbox:
    """The messages of one round, or of one answer."""

    def __init__(self) -> None:
        self._open: dict[str, _Letter] = {}
        self._full: list[Outgoing] = []

    def ping(self, peer: str, nonce: int) -> None:
        """Add a ping; the peer acknowledges its nonce."""
        self._letter(peer, 10).pings.append(nonce)

    def ack(self, peer: str, nonce: int, clock_ns: int = 0) -> None:
        """Add an acknowledgement; `clock_ns`: when the ping came, on this host's clock, or 0."""
        letter = self._letter(peer, 20)
        letter.acks.append(nonce)
        letter.clock_ns = clock_ns or letter.clock_ns

    def probe(self, peer: str, probe: Probe) -> None:
        """Add a request to probe another member."""
        self._letter(peer, PROBE_BYTES).probes.append(probe)

    def holding(self, peer: str, holding: ViewReport, plan: PlanDigests = NO_PLAN) -> None:
        """Set the view report and the digests of the plan; the last one counts."""
        letter = self._letter(peer, sum(len(job) + JOB_FRAME for job in plan.jobs))
        letter.holding, letter.plan = holding, plan

    def records(self, peer: str, records: Iterable[CheckedRecord]) -> None:
        """Add records, over several messages if needed."""
        for held in records:
            letter = self._letter(peer, held.size + RECORD_FRAME)
            letter.records.append(held.record)

    def announce(self, peer: str, entries: bytes) -> None:
        """Add summary entries without claiming that they are complete for any leaf."""
        if entries:
            self._letter(peer, len(entries)).entries += entries

    def exchange(self, peer: str, exchange: Exchange) -> None:
        """Add one step of a repair: its summary in a message of its own, then its records."""
        if exchange.leaves or exchange.entries or exchange.buckets or exchange.wanted:
            size = sum(
                map(len, (exchange.leaves, exchange.entries, exchange.buckets, exchange.wanted))
            )
            letter = self._letter(peer, size, fresh=True)
            letter.leaves, letter.buckets = exchange.leaves, exchange.buckets
            letter.entries, letter.wanted = exchange.entries, exchange.wanted
        self.records(peer, exchange.records)

    def take(self) -> list[Outgoing]:
        """Return all messages and start again empty."""
        for peer in list(self._open):
            self._close(peer)
        full, self._full = self._full, []
        return full

    def _letter(self, peer: str, size: int, *, fresh: bool = False) -> _Letter:
        letter = self._open.get(peer)
        if letter is not None and (
            letter.size + size > ROOM
            or len(letter.records) >= MAX_RECORDS
            or len(letter.pings) >= MAX_PROBES
            or len(letter.acks) >= MAX_PROBES
            or len(letter.probes) >= MAX_PROBES
            or len(letter.entries) >= ENTRY_BYTES * (MAX_ENTRIES - MAX_RECORDS)
            or (fresh and (letter.leaves or letter.entries or letter.wanted))
        ):
            self._close(peer)
            letter = None
        if letter is None:
            letter = self._open[peer] = _Letter()
        letter.size += size
        return letter

    def _close(self, peer: str) -> None:
        letter = self._open.pop(peer)
        message = Message(
            protocol=PROTOCOL,
            records=tuple(letter.records),
            pings=tuple(letter.pings),
            acks=tuple(letter.acks),
            clock_ns=letter.clock_ns,
            probes=tuple(letter.probes),
            leaves=letter.leaves,
            buckets=letter.buckets,
            entries=letter.entries,
            wanted=letter.wanted,
            holding=letter.holding,
            plan=letter.plan.plan,
            jobs=dict(letter.plan.jobs),
        )
        self._full.append(Outgoing(peer, message))
