"""Collects what is to be said to each peer into as few messages as their bounds allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hostcc.coord.core.intake import CheckedRecord
from hostcc.coord.core.message import (
    ENTRY_BYTES,
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
from hostcc.coord.core.repair import Exchange

ROOM = MAX_MESSAGE - 1024
"""Bytes for what varies in length; the rest is for the frame and the short sections."""
RECORD_FRAME = 16
"""Bytes of msgpack around a record."""
PROBE_BYTES = 80


@dataclass
class _Letter:
    records: list[Record] = field(default_factory=list)
    pings: list[int] = field(default_factory=list)
    acks: list[int] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    entries: bytes = b""
    leaves: bytes = b""
    buckets: bytes = b""
    wanted: bytes = b""
    holding: ViewReport | None = None
    size: int = 0


class Outbox:
    """One round's, or one answer's, messages."""

    def __init__(self) -> None:
        self._open: dict[str, _Letter] = {}
        self._full: list[Outgoing] = []

    def ping(self, peer: str, nonce: int) -> None:
        """To be acknowledged."""
        self._letter(peer, 10).pings.append(nonce)

    def ack(self, peer: str, nonce: int) -> None:
        """An acknowledgement."""
        self._letter(peer, 10).acks.append(nonce)

    def probe(self, peer: str, probe: Probe) -> None:
        """A request to probe for this member."""
        self._letter(peer, PROBE_BYTES).probes.append(probe)

    def holding(self, peer: str, holding: ViewReport) -> None:
        """Which view this member holds; the last one counts."""
        self._letter(peer, 0).holding = holding

    def records(self, peer: str, records: Iterable[CheckedRecord]) -> None:
        """Records, in as many messages as it takes."""
        for held in records:
            letter = self._letter(peer, held.size + RECORD_FRAME)
            letter.records.append(held.record)

    def announce(self, peer: str, entries: bytes) -> None:
        """Summary entries that are complete for nothing."""
        if entries:
            self._letter(peer, len(entries)).entries += entries

    def exchange(self, peer: str, exchange: Exchange) -> None:
        """A step of a repair, in a message of its own beside its records."""
        if exchange.leaves or exchange.entries or exchange.buckets or exchange.wanted:
            size = sum(
                map(len, (exchange.leaves, exchange.entries, exchange.buckets, exchange.wanted))
            )
            letter = self._letter(peer, size, fresh=True)
            letter.leaves, letter.buckets = exchange.leaves, exchange.buckets
            letter.entries, letter.wanted = exchange.entries, exchange.wanted
        self.records(peer, exchange.records)

    def take(self) -> list[Outgoing]:
        """Everything, and start anew."""
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
            probes=tuple(letter.probes),
            leaves=letter.leaves,
            buckets=letter.buckets,
            entries=letter.entries,
            wanted=letter.wanted,
            holding=letter.holding,
        )
        self._full.append(Outgoing(peer, message))
