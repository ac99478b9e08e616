"""Which job has which number for the kernel, and in whose quota it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hostcc.errors import HostccError
from hostcc.quota import Owner, Quota


class Slots:
    """Numbers 1 to `quota.total`.  They go round: a socket that outlives its job must not join the
    next one."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self._owners: dict[int, Owner] = {}
        """Of those that are taken."""
        self._last = 0

    @property
    def held(self) -> Mapping[Owner, int]:
        """How many each has."""
        return Counter(self._owners.values())

    def take(self, owner: Owner, *, had: bool = False) -> int:
        """A free one.  Raises HostccError when there is none for `owner`; a job that `had` one gets
        it whatever others its owner has."""
        if refusal := self.quota.refusal(None if had else owner, self.held):
            raise HostccError(f"no job slot on this host: {refusal}")
        total = self.quota.total
        order = ((self._last + step) % total + 1 for step in range(total))
        self._last = next(slot for slot in order if slot not in self._owners)
        self._owners[self._last] = owner
        return self._last

    def give_back(self, slot: int) -> None:
        """It is free again."""
        self._owners.pop(slot, None)

    def to_root(self, slot: int) -> None:
        """Root has asked for this job, too: it counts in nobody's quota any more."""
        self._owners[slot] = None

    def owner(self, slot: int) -> Owner:
        """In whose quota it counts."""
        return self._owners.get(slot)
