"""Publishes this host's certificate, and lists of revoked ones, as records of the gossip.

Every member publishes its own certificate. A list is published by few: by those that have it as a
file, of whom one is enough, and when none of them is left by the first of all members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostcc.coord.core.node import Node
from hostcc.coord.core.payloads import (
    CERTIFICATE,
    REVOKED,
    HostCertificate,
    RevokedCertificates,
)
from hostcc.coord.keys.keyring import Keyring

CHECK_INTERVAL_S = 2.0


class CertificateRecords:
    """The records of one member."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._certificate = b""
        self._lists: set[str] = set()
        """Authorities whose list this host publishes."""
        self._due = 0.0

    def update(self, node: Node, now: float) -> None:
        """Publish what is new; `now`: monotonic seconds."""
        own = self._keyring.certificate
        if own is not None and own.raw != self._certificate:
            node.publish(CERTIFICATE, "", HostCertificate(own.raw))
            self._certificate = own.raw
        if now >= self._due:
            self._due = now + CHECK_INTERVAL_S
            self._update_lists(node)

    def _update_lists(self, node: Node) -> None:
        held = self._keyring.revocations
        alive = [name for name in node.members.others if not node.members.is_dead(name)]
        for authority, revoked in held.items():
            others = _published(node, authority, alive)
            bound = authority in self._lists or self._keyring.has_file(revoked)
            if publishes(node.name, revoked.number, others, alive, bound=bound):
                content = RevokedCertificates(revoked.raw, revoked.number)
                node.publish(REVOKED, authority, content)
                self._lists.add(authority)
            elif authority in self._lists:
                node.withdraw(REVOKED, authority)
                self._lists.discard(authority)
        for authority in self._lists - held.keys():
            node.withdraw(REVOKED, authority)
        self._lists &= held.keys()


def publishes(
    name: str, number: int, others: Mapping[str, int], alive: Iterable[str], *, bound: bool
) -> bool:
    """Return whether a host publishes the list `number`, of which `others` publish theirs.

    `bound`: it has the list as a file, or publishes it already.
    """
    if any(theirs > number for theirs in others.values()):
        return False
    same = [other for other, theirs in others.items() if theirs == number]
    if same:
        return bound and name < min(same)
    return bound or all(name < other for other in alive)


def _published(node: Node, authority: str, alive: Iterable[str]) -> dict[str, int]:
    found = {}
    for name in alive:
        held = node.store.get(name, (REVOKED, authority))
        if held is not None and isinstance(held.content, RevokedCertificates):
            found[name] = held.content.number
    return found
