"""Whom to talk to: few members for long, so that connections last, and in time everybody.

A random graph of so many neighbours a member spreads news as fast as choosing among all does
(HyParView, DSN 2007), and a cluster of thousands needs no connection for each message.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from hostcc.coord.core.membership import Membership
from hostcc.coord.core.settings import Settings


class PeerSample:
    """Members drawn at random from those that are not dead; one is exchanged now and then."""

    def __init__(self, members: Membership, settings: Settings, rng: Random) -> None:
        self.neighbours: tuple[str, ...] = ()
        """Members that share links or jobs."""
        self._members = members
        self._settings = settings
        self._rng = rng
        self._drawn: list[str] = []
        self._turn_at = 0.0

    def refresh(self, now: float) -> None:
        """Exchange the one drawn first when it is time, and those that have died."""
        if now >= self._turn_at:
            self._turn_at = now + self._settings.circle_s
            del self._drawn[:1]
        self._drawn = [one for one in self._drawn if not self._members.is_dead(one)]
        others = self._members.others
        wanted = min(self._settings.circle, len(others))
        if len(self._drawn) < wanted:
            enough = min(len(others), wanted + len(self._drawn))
            fresh = [one for one in self._rng.sample(others, enough) if one not in self._drawn]
            self._drawn += fresh[: wanted - len(self._drawn)]

    def anybody(self, contacts: Iterable[str]) -> bool:
        """Whether `pick` finds one."""
        return bool(self._members.others) or not all(map(self._members.is_dead, contacts))

    def pick(self, count: int, contacts: Iterable[str]) -> list[str]:
        """Members for what is new: one that matters, if there are any, the others drawn.

        `contacts` are taken as long as nobody is known.
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
        """A member to compare stores with: every other time any of all; empty: there is none.

        Those that matter alone would leave groups of jobs that never hear of each other.
        """
        matter = [one for one in self.neighbours if not self._members.is_dead(one)]
        if matter and self._rng.random() < 0.5:
            return self._rng.choice(matter)
        others = self._members.others or list(contacts)
        return self._rng.choice(others) if others else ""
