"""Finds options in which other members' plans differ from this host's, and logs each once."""

from __future__ import annotations

import math

from hostcc.answers.gossip import Disagreement
from hostcc.coord.core.node import Node
from hostcc.coord.core.payloads import MEMBER, RULES, Rules
from hostcc.daemon.planning.rules import disagreements, unlike
from hostcc.log import get_logger

log = get_logger("gossip")

CHECK_S = 2.0
"""Between two comparisons with all members."""


class ClusterDifferences:
    """Options that plans depend on and that are not the same on all members that are alive."""

    def __init__(self, own: Rules) -> None:
        self.found: tuple[Disagreement, ...] = ()
        self.by_member: dict[str, tuple[str, ...]] = {}
        """Member -> options in which it differs, of those that do."""
        self._own = own
        self._due = -math.inf
        self._moment: tuple[int, int] = (-1, -1)
        self._silent: set[str] = set()
        self._logged: dict[str, set[str]] = {}
        """Option -> values of other members."""

    def check(self, node: Node, now: float) -> None:
        """Compare again, if that is due and anything may have changed; `now`: seconds."""
        moment = (node.store.changes(MEMBER, RULES), node.members.changes)
        if now < self._due or (moment == self._moment and not self._silent):
            return
        self._due, self._moment = now + CHECK_S, moment
        said: dict[str, Rules] = {}
        silent: dict[str, str] = {}
        for member in node.members.others:
            held, about = node.store.get(member, (RULES, "")), node.store.member(member)
            if held is not None and isinstance(held.content, Rules):
                said[member] = held.content
            elif about is not None:
                silent[member] = about.software
        # The records of a member may come in two messages: it counts as silent at the second check.
        known, self._silent = self._silent & silent.keys(), set(silent)
        self.found = disagreements(self._own, said, {name: silent[name] for name in known})
        told = {**dict.fromkeys(known), **said}
        found = {member: unlike(self._own, told[member]) for member in told}
        self.by_member = {member: options for member, options in found.items() if options}
        self._log()

    def _log(self) -> None:
        now = {one.option: {there.value for there in one.there} for one in self.found}
        for one in self.found:
            if not now[one.option] <= self._logged.get(one.option, set()):
                there = "; ".join(f"{it.value} on {', '.join(it.members)}" for it in one.there)
                log.warning("plans differ", option=one.option, here=one.here, there=there)
        for option in self._logged.keys() - now.keys():
            log.info("plans differ no more", option=option)
        self._logged = now
