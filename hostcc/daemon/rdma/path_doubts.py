"""Which paths of queue pairs may have died or changed: by completions and counters.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostcc.daemon.rdma.pairs import Sender

Ends = tuple[str, str]
"""Own address, destination."""
FAILED = "completions failed"
AGAIN = "packets were sent again"


class PathDoubts:
    """What was counted at the last look."""

    def __init__(self) -> None:
        self._errors: dict[tuple[int, int], int] = {}
        """(Process, queue pair) -> failed completions."""
        self._again: dict[str, int] = {}
        """Device -> packets that were sent again."""

    def take(self, senders: Iterable[Sender], again: Mapping[str, int | None]) -> dict[Ends, str]:
        """Return ends -> why there is doubt; `again`: device -> packets that were sent again.

        The first look at a device or queue pair is none: what it counted may be long past.
        """
        errors: dict[tuple[int, int], int] = {}
        rising = {one for one, count in again.items()
                  if count is not None and count > self._again.get(one, count)}  # fmt: skip
        found: dict[Ends, str] = {}
        for sender in senders:
            for pair in sender.pairs:
                key, ends = (sender.pid, pair.qpn), (pair.source, pair.destination)
                errors[key] = pair.errors
                if pair.errors > self._errors.get(key, pair.errors):
                    found[ends] = FAILED
                elif pair.device in rising:
                    found.setdefault(ends, AGAIN)
        self._errors = errors
        self._again = {one: count for one, count in again.items() if count is not None}
        return found
