"""Membership by suspicion, refutation and death (SWIM; Lifeguard).

An accusation is a record of its writer, like any other. A member is dead once its present
incarnation has been accused for long enough: the more accusers, the sooner (Lifeguard, section
3.2). A higher incarnation makes it alive again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store


class State(StrEnum):
    """Liveness of a member."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"


@dataclass(frozen=True)
class StateChange:
    """The incarnation that became suspect or dead, and when."""

    incarnation: int
    at: float
    """Experienced seconds."""


class Membership:
    """Liveness of all other members, derived from accusations in the store and from time."""

    def __init__(self, name: str, store: Store, settings: Settings, rng: Random) -> None:
        self._name = name
        self._store = store
        self._settings = settings
        self._rng = rng
        self._suspects: dict[str, StateChange] = {}
        self._dead: dict[str, StateChange] = {}
        self.others: list[str] = []
        """Members that are not dead, without this one, in probing order. Newcomers are inserted at
        random positions (SWIM, section 4.3)."""
        self.changes = 0
        """Number of deaths and returns so far."""
        self._died: list[str] = []
        self._returned: list[str] = []

    @property
    def count(self) -> int:
        """Number of members that are not dead, this one included."""
        return len(self.others) + 1

    def state(self, member: str) -> State:
        """Return a member's state; unknown members count as alive."""
        if member in self._dead:
            return State.DEAD
        return State.SUSPECT if member in self._suspects else State.ALIVE

    @property
    def has_suspects(self) -> bool:
        """Whether any member is suspect."""
        return bool(self._suspects)

    def is_dead(self, member: str) -> bool:
        """Return whether a member is dead, and so left out of the view."""
        return member in self._dead

    def dead(self) -> list[str]:
        """Return the dead members that are still remembered; they may come back."""
        return list(self._dead)

    def update_member(self, member: str, *, new: bool) -> None:
        """Update for a newer member record; `new`: the first of this member."""
        if member == self._name:
            return
        incarnation = self._store.incarnation(member)
        suspicion = self._suspects.get(member)
        if suspicion is not None and suspicion.incarnation < incarnation:
            del self._suspects[member]
        death = self._dead.get(member)
        if death is not None and death.incarnation < incarnation:
            del self._dead[member]
            self._returned.append(member)
            self.changes += 1
            new = True
        if new:
            self._insert(member)

    def adopt(self, others: list[str]) -> None:
        """Start with these members, all alive: for simulations that begin with a formed cluster."""
        self.others = others

    def tick(self, now: float) -> list[str]:
        """Update suspects and deaths at `now`; return members whose records are to be forgotten."""
        self._suspect(now)
        for member, suspicion in list(self._suspects.items()):
            if suspicion.incarnation not in self._store.accusers(member).values():
                del self._suspects[member]
            elif now >= suspicion.at + self._suspicion_s(member, suspicion.incarnation):
                del self._suspects[member]
                self._dead[member] = StateChange(suspicion.incarnation, now)
                self.others.remove(member)
                self._died.append(member)
                self.changes += 1
        limit = now - self._settings.forget_s
        gone = [member for member, death in self._dead.items() if death.at <= limit]
        for member in gone:
            del self._dead[member]
        return gone

    def take_changes(self) -> tuple[list[str], list[str]]:
        """Return (members that died, members that returned) since the last call."""
        died, returned, self._died, self._returned = self._died, self._returned, [], []
        return died, returned

    def unfounded(self) -> list[str]:
        """Return dead members that no held record accuses: a newcomer could not tell that they are
        dead."""
        return [
            member
            for member, death in self._dead.items()
            if death.incarnation not in self._store.accusers(member).values()
        ]

    def _suspect(self, now: float) -> None:
        for member in self._store.accused():
            if member == self._name or member in self._dead:
                continue
            incarnation = self._store.incarnation(member)
            before = self._suspects.get(member)
            if before is not None and before.incarnation == incarnation:
                continue
            if incarnation in self._store.accusers(member).values():
                self._suspects[member] = StateChange(incarnation, now)

    def _suspicion_s(self, member: str, incarnation: int) -> float:
        # Seconds from suspicion to death: shorter with each confirmation (Lifeguard, 3.2).
        accusers = sum(1 for one in self._store.accusers(member).values() if one == incarnation)
        least, most = self._settings.suspicion(self.count)
        enough = min(self._settings.confirmations, max(self.count - 2, 0))
        if enough == 0:
            return least
        share = math.log(max(accusers, 1)) / math.log(enough + 1)
        return max(least, most - (most - least) * share)

    def _insert(self, member: str) -> None:
        at = self._rng.randrange(len(self.others) + 1)
        self.others.append(member)
        self.others[at], self.others[-1] = self.others[-1], self.others[at]
