"""Which paths of queue pairs may have died or changed: by completions and counters.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hostcc.daemon.rdma.pairs import Ends, Pair, Sender
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute, route_of

FAILED = "completions failed"
AGAIN = "packets were sent again"
STANDS = "nothing completes any more"
STILL_S, LEAST_STILL_S = 0.5, 0.1
USUAL_TIMES = 8.0
"""A queue pair stands still when nothing has completed for this many times what its messages take
in the mean, within these limits; a queue pair without a completion, after STILL_S."""


@dataclass(frozen=True)
class Doubts:
    """What one look at the counters makes doubtful."""

    ends: Mapping[Ends, str] = field(default_factory=dict)
    """Ends of paths -> why."""
    standing: frozenset[QueuePairRoute] = frozenset()
    """Routes with a queue pair that stands still."""
    stalled: frozenset[QueuePairRoute] = frozenset()
    """Of these, those whose device has sent again meanwhile."""


class PathDoubts:
    """What was counted at the last look."""

    def __init__(self) -> None:
        self._errors: dict[tuple[int, str, int], int] = {}
        """(Process, device, queue pair) -> failed completions."""
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
        errors: dict[tuple[int, str, int], int] = {}
        rising = {one for one, count in again.items()
                  if count is not None and count > self._again.get(one, count)}  # fmt: skip
        self._rose |= dict.fromkeys(rising, self._at)
        self._at = now
        found: dict[Ends, str] = {}
        standing: set[QueuePairRoute] = set()
        stalled: set[QueuePairRoute] = set()
        for sender in senders:
            for pair in sender.pairs:
                key = sender.pid, pair.device, pair.qpn
                errors[key] = pair.errors
                stands = 0 < pair.open_at <= now - still_s(pair)
                if pair.errors > self._errors.get(key, pair.errors):
                    found[pair.ends] = FAILED
                elif pair.device in rising:
                    found.setdefault(pair.ends, AGAIN)
                elif stands:
                    found.setdefault(pair.ends, STANDS)
                if stands:
                    standing.add(route_of(sender.job, pair))
                if stands and self._rose.get(pair.device, 0.0) > pair.open_at:
                    stalled.add(route_of(sender.job, pair))
        self._errors = errors
        self._again = {one: count for one, count in again.items() if count is not None}
        return Doubts(found, frozenset(standing), frozenset(stalled))


def still_s(pair: Pair) -> float:
    """Return for how long nothing completes of a queue pair until it stands still, seconds."""
    if not pair.completed:
        return STILL_S
    return min(STILL_S, max(LEAST_STILL_S, USUAL_TIMES * pair.busy_s / pair.completed))
