"""Keeps in mind in what other members' plans differ from this host's, and logs it once."""

from __future__ import annotations

import math

from hostcc.coord.core.node import Node
from hostcc.coord.core.payloads import RULES, Rules
from hostcc.daemon.planning.rules import Disagreement, disagreements
from hostcc.log import get_logger

log = get_logger("gossip")

LOOK_S = 2.0
"""Between looks at what all members say."""


class ClusterDifferences:
    """What is not the same on all members that are alive."""

    def __init__(self, own: Rules) -> None:
        self.found: tuple[Disagreement, ...] = ()
        self._own = own
        self._due = -math.inf
        self._moment: tuple[int, int] = (-1, -1)
        self._silent: set[str] = set()
        self._told: dict[str, set[str]] = {}
        """Option -> the values elsewhere that were logged."""

    def look(self, node: Node, now: float) -> None:
        """Look again, if it is due and something may be another; `now`: seconds."""
        moment = (node.store.revision, node.members.changes)
        if now < self._due or (moment == self._moment and not self._silent):
            return
        self._due, self._moment = now + LOOK_S, moment
        said: dict[str, Rules] = {}
        silent: dict[str, str] = {}
        for member in node.members.others:
            held, about = node.store.get(member, (RULES, "")), node.store.member(member)
            if held is not None and isinstance(held.content, Rules):
                said[member] = held.content
            elif about is not None:
                silent[member] = about.software
        # What a member says may come in two messages: it counts as silent at the second look.
        known, self._silent = self._silent & silent.keys(), set(silent)
        self.found = disagreements(self._own, said, {name: silent[name] for name in known})
        self._tell()

    def _tell(self) -> None:
        now = {one.option: {there.value for there in one.there} for one in self.found}
        for one in self.found:
            if not now[one.option] <= self._told.get(one.option, set()):
                there = "; ".join(f"{it.value} on {', '.join(it.members)}" for it in one.there)
                log.warning("plans differ", option=one.option, here=one.here, there=there)
        for option in self._told.keys() - now.keys():
            log.info("plans differ no more", option=option)
        self._told = now
