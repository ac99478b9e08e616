"""Chooses peers: few members for a long time, so that connections last, and over time everybody.

A random graph with this many neighbours per member spreads news as fast as choosing among all
members (HyParView, DSN 2007). A cluster of thousands then needs no connection per message.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from hostcc.coord.core.membership import Membership
from hostcc.coord.core.settings import Settings


class PeerSample:
    """A random sample of the members that are not dead; one is replaced at intervals."""

    def __init__(self, members: Membership, settings: Settings, rng: Random) -> None:
        self.neighbours: tuple[str, ...] = ()
        """Members that share links or jobs."""
        self._members = members
        self._settings = settings
        self._rng = rng
        self._drawn: list[str] = []
        self._turn_at = 0.0

    def refresh(self, now: float) -> None:
        """Replace the oldest member of the sample when due, and those that died; `now`: seconds."""
        if now >= self._turn_at:
            self._turn_at = now + self._settings.sample_change_s
            del self._drawn[:1]
        self._drawn = [one for one in self._drawn if not self._members.is_dead(one)]
        others = self._members.others
        wanted = min(self._settings.sample_size, len(others))
        if len(self._drawn) < wanted:
            enough = min(len(others), wanted + len(self._drawn))
            fresh = [one for one in self._rng.sample(others, enough) if one not in self._drawn]
            self._drawn += fresh[: wanted - len(self._drawn)]

    def has_peers(self, contacts: Iterable[str]) -> bool:
        """Return whether `pick` would find a member."""
        return bool(self._members.others) or not all(map(self._members.is_dead, contacts))

    def pick(self, count: int, contacts: Iterable[str]) -> list[str]:
        """Return members to send news to: one neighbour, if there is any, and others of the sample.

        `contacts` serve as long as no member is known.
        """
        drawn = self._drawn or self._members.others or list(contacts)
        if not drawn:
            return []
        chosen: dict[str, None] = {}
        if self.neighbours:
            chosen[self._rng.choice(self.neighbours)] = None
        for _ in range(2 * count):
            if len(chosen) >= min(count, len(drawn)):
                break
            chosen[self._rng.choice(drawn)] = None
        return [peer for peer in chosen if not self._members.is_dead(peer)]

    def pick_any(self, contacts: Iterable[str]) -> str:
        """Return a member to compare stores with; empty: there is none.

        Every other time it is any member: among neighbours alone, groups of jobs would never hear
        of each other.
        """
        matter = [one for one in self.neighbours if not self._members.is_dead(one)]
        if matter and self._rng.random() < 0.5:
            return self._rng.choice(matter)
        others = self._members.others or list(contacts)
        return self._rng.choice(others) if others else ""
