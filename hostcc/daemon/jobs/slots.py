"""The slots of jobs, by which the kernel knows them, and the quotas in which they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hostcc.errors import HostccError
from hostcc.system.quota import Owner, Quota


class Slots:
    """Slots 1 to `quota.total`, in rotation: a socket that outlives its job must not become one of
    the next job."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self._owners: dict[int, Owner] = {}
        """Slot -> owner, of slots that are taken."""
        self._last = 0

    @property
    def held(self) -> Mapping[Owner, int]:
        """Owner -> how many slots count in its quota."""
        return Counter(self._owners.values())

    def take(self, owner: Owner, *, had: bool = False) -> int:
        """Take a free slot; a job that `had` one before gets it whatever the quota says.

        Raises HostccError when there is none for `owner`.
        """
        if refusal := self.quota.refusal(None if had else owner, self.held):
            raise HostccError(f"no job slot on this host: {refusal}")
        total = self.quota.total
        order = ((self._last + step) % total + 1 for step in range(total))
        self._last = next(slot for slot in order if slot not in self._owners)
        self._owners[self._last] = owner
        return self._last

    def give_back(self, slot: int) -> None:
        """Free a slot."""
        self._owners.pop(slot, None)

    def to_root(self, slot: int) -> None:
        """Count a slot in no quota, since root has asked for its job, too."""
        self._owners[slot] = None

    def to_user(self, slot: int, owner: Owner) -> None:
        """Count a slot for a user whose processes came after root's, which began the job."""
        if self._owners.get(slot) == 0 and owner is not None:
            self._owners[slot] = owner

    def owner(self, slot: int) -> Owner:
        """The owner in whose quota a slot counts; None: in none."""
        return self._owners.get(slot)
