"""Small datagrams from host to host beside gossip: authenticated, bounded, never repeated.

What exceeds a bound is dropped and counted on both sides. Users of notes repeat what has to arrive.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable

from hostcc.coord.core.message import MAX_NOTE, MAX_NOTES, PROTOCOL, Message, Note, Outgoing
from hostcc.errors import InputError, one_line

MAX_PEERS = 256
"""Peers with unsent notes; notes wait until the next turn of the event loop."""

Hear = Callable[[str, bytes], None]
"""Handles (authenticated peer, data); raises InputError for data that is not a valid note."""


class Notes:
    """Collects the notes of one turn of the event loop into one message for each peer."""

    def __init__(
        self,
        send: Callable[[Iterable[Outgoing], float], None],
        clock: Callable[[], float],
        counters: Counter[str],
        offence: Callable[[str, str], None],
    ) -> None:
        """`offence(peer, reason)` reports a peer that sent an invalid note."""
        self._send, self._clock, self._counters = send, clock, counters
        self._offence = offence
        self._waiting: dict[str, list[Note]] = {}
        self._topics: dict[str, Hear] = {}

    def listen(self, topic: str, hear: Hear | None) -> None:
        """Set the handler of a topic; None removes it."""
        if hear is None:
            self._topics.pop(topic, None)
        else:
            self._topics[topic] = hear

    def say(self, peer: str, topic: str, data: bytes) -> bool:
        """Send at most MAX_NOTE bytes to a member; return False when they were dropped."""
        waiting = self._waiting.get(peer, [])
        full = not waiting and len(self._waiting) >= MAX_PEERS
        if full or len(data) > MAX_NOTE or len(waiting) >= MAX_NOTES:
            self._counters["dropped: note"] += 1
            return False
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.setdefault(peer, waiting).append(Note(topic, data))
        return True

    def flush(self) -> None:
        """Send all collected notes."""
        waiting, self._waiting = self._waiting, {}
        out = [Outgoing(peer, Message(PROTOCOL, notes=tuple(n))) for peer, n in waiting.items()]
        if out:
            self._send(out, self._clock())

    def heard(self, peer: str, notes: Iterable[Note]) -> None:
        """Pass a peer's notes to the handlers of their topics."""
        for note in notes:
            hear = self._topics.get(note.topic)
            if hear is None:
                self._counters["dropped: note nobody takes"] += 1
                continue
            try:
                hear(peer, note.data)
            except InputError as error:
                self._offence(peer, one_line(str(error)))
