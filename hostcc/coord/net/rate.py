"""Rate limits: for a peer's messages, bytes and connections, for offences, and for logging them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from hostcc.coord.net.transport_settings import TransportSettings
from hostcc.log import Logger

MAX_TRACKED_PEERS = 4096
"""Peers or addresses tracked at a time; the one unseen for longest is dropped."""
LOG_EVERY_S = 60.0
LINES_PER_MINUTE = 30.0
"""Log lines for all offenders together: an attacker may have many addresses."""
STRIKES_PER_MINUTE = 20.0
"""Offences, at once or in a minute, after which a peer is shut out."""
FATAL_STRIKES = STRIKES_PER_MINUTE + 1
"""Strikes for what cannot be a mistake: shut out at once."""
SHUT_OUT_S = 60.0


class TokenBucket:
    """A bucket of at most `burst` tokens that gains `rate` a second; starts full."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at: float | None = None

    def take(self, amount: float, now: float) -> bool:
        """Take `amount` if it is there and return whether it was; `now`: monotonic seconds."""
        self._fill(now)
        if amount > self._level:
            return False
        self._level -= amount
        return True

    def wait(self, now: float) -> float:
        """Return the seconds until one token is available."""
        self._fill(now)
        return max(0.0, (1.0 - self._level) / self._rate)

    def _fill(self, now: float) -> None:
        if self._at is not None and now > self._at:
            self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now if self._at is None else max(now, self._at)


class PeerLimits:
    """Limits of messages, bytes and connections for each peer."""

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self._known: OrderedDict[str, tuple[TokenBucket, TokenBucket, TokenBucket]] = OrderedDict()

    def take(self, peer: str, size: int, now: float) -> bool:
        """Return whether a message of `size` bytes is within limits; `now`: monotonic seconds."""
        messages, octets, _ = self._of(peer)
        return messages.take(1, now) and octets.take(size, now)

    def connect(self, peer: str, now: float) -> bool:
        """Return whether one more connection is within its limit."""
        return self._of(peer)[2].take(1, now)

    def _of(self, peer: str) -> tuple[TokenBucket, TokenBucket, TokenBucket]:
        found = self._known.get(peer)
        if found is None:
            s = self._settings
            if len(self._known) >= MAX_TRACKED_PEERS:
                self._known.popitem(last=False)
            found = self._known[peer] = (
                TokenBucket(s.messages_per_s, s.messages_burst),
                TokenBucket(s.bytes_per_s, s.bytes_burst),
                TokenBucket(s.connects_per_s, s.connects_burst),
            )
        self._known.move_to_end(peer)
        return found


@dataclass
class _Record:
    strikes: TokenBucket = field(
        default_factory=lambda: TokenBucket(STRIKES_PER_MINUTE / 60, STRIKES_PER_MINUTE)
    )
    said_at: float | None = None
    unsaid: int = 0
    out_until: float = 0.0


class Offenders:
    """Counts offences by peer or address, logs each once a minute, shuts repeat offenders out."""

    def __init__(self, log: Logger) -> None:
        self.total = 0
        self._log = log
        self._known: OrderedDict[str, _Record] = OrderedDict()
        self._lines = TokenBucket(LINES_PER_MINUTE / 60, LINES_PER_MINUTE)

    def note(self, who: str, reason: str, now: float, strikes: float = 1.0) -> bool:
        """Count an offence; return True when it is the one for which `who` is shut out."""
        self.total += 1
        record = self._record(who)
        fresh = now >= record.out_until and not record.strikes.take(strikes, now)
        if fresh:
            record.out_until = now + SHUT_OUT_S
        record.unsaid += 1
        silent = record.said_at is not None and now < record.said_at + LOG_EVERY_S
        if not silent and self._lines.take(1, now):
            action = f"shut out for {SHUT_OUT_S:g} s" if fresh else "dropped"
            self._log.warning(
                "gossip refused", peer=who, reason=reason, count=record.unsaid, action=action
            )
            record.said_at, record.unsaid = now, 0
        return fresh

    def shut_out(self, who: str, now: float) -> bool:
        """Return whether `who` is shut out at `now` (monotonic seconds)."""
        record = self._known.get(who)
        return record is not None and now < record.out_until

    def out(self, now: float) -> list[str]:
        """Return all who are shut out at `now`."""
        return [who for who, record in self._known.items() if now < record.out_until]

    def _record(self, who: str) -> _Record:
        record = self._known.get(who)
        if record is None:
            if len(self._known) >= MAX_TRACKED_PEERS:
                self._known.popitem(last=False)
            record = self._known[who] = _Record()
        self._known.move_to_end(who)
        return record
