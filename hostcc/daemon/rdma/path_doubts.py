"""Which paths of queue pairs may have died or changed: by completions and counters.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hostcc.daemon.rdma.pairs import Ends, Sender
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute, route_of

FAILED = "completions failed"
AGAIN = "packets were sent again"
STANDS = "nothing completes any more"
STILL_S = 0.5
"""A queue pair that nothing completes of for so long stands still."""


@dataclass(frozen=True)
class Doubts:
    """What one look at the counters makes doubtful."""

    ends: Mapping[Ends, str] = field(default_factory=dict)
    """Ends of paths -> why."""
    stalled: frozenset[QueuePairRoute] = frozenset()
    """Routes with a queue pair that stands still while its device sends again."""


class PathDoubts:
    """What was counted at the last look."""

    def __init__(self) -> None:
        self._errors: dict[tuple[int, int], int] = {}
        """(Process, queue pair) -> failed completions."""
        self._again: dict[str, int] = {}
        """Device -> packets that were sent again."""
        self._rose: dict[str, float] = {}
        """Device -> since when at least that has grown, as last seen."""
        self._at = 0.0
        """When the last look was."""

    def take(
        self, senders: Iterable[Sender], again: Mapping[str, int | None], now: float
    ) -> Doubts:
        """Return what is doubtful; `again`: device -> packets that were sent again; `now`:
        CLOCK_MONOTONIC, seconds.

        The first look at a device or queue pair is none: what it counted may be long past.
        """
        errors: dict[tuple[int, int], int] = {}
        rising = {one for one, count in again.items()
                  if count is not None and count > self._again.get(one, count)}  # fmt: skip
        self._rose |= dict.fromkeys(rising, self._at)
        self._at = now
        found: dict[Ends, str] = {}
        stalled: set[QueuePairRoute] = set()
        for sender in senders:
            for pair in sender.pairs:
                key = sender.pid, pair.qpn
                errors[key] = pair.errors
                stands = 0 < pair.open_at <= now - STILL_S
                if pair.errors > self._errors.get(key, pair.errors):
                    found[pair.ends] = FAILED
                elif pair.device in rising:
                    found.setdefault(pair.ends, AGAIN)
                elif stands:
                    found.setdefault(pair.ends, STANDS)
                if stands and self._rose.get(pair.device, 0.0) > pair.open_at:
                    stalled.add(route_of(sender.job, pair))
        self._errors = errors
        self._again = {one: count for one, count in again.items() if count is not None}
        return Doubts(found, frozenset(stalled))
