"""The cluster as other parts of the agent see it: members, their records, own records, notes."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hostcc.coord.core.membership import State
from hostcc.coord.core.payloads import ADDRESSES, MEMBER, Addresses, Content, PayloadError
from hostcc.daemon.gossip import profile_records
from hostcc.errors import one_line
from hostcc.model import JobProfile

if TYPE_CHECKING:
    from hostcc.coord.core.notes import Hear
    from hostcc.coord.core.record_checker import CheckedRecord, Slot
    from hostcc.daemon.gossip.member import Member
    from hostcc.daemon.planning.agreement_status import AgreementStatus


class Cluster:
    """This host among the others; nothing here raises while it is no member."""

    def __init__(self) -> None:
        self._member: Member | None = None
        self._published_by: Member | None = None
        self._published: dict[tuple[str, str], Content] = {}
        self.refusals: dict[tuple[str, str], str] = {}
        """(Kind, key) of a record -> why it was not published."""
        self._topics: dict[str, Hear] = {}
        self._owners: tuple[tuple[object, int], dict[str, str]] = ((None, -1), {})

    @property
    def member(self) -> Member | None:
        """Written by the gossip part; None while this host does not take part."""
        return self._member

    @member.setter
    def member(self, member: Member | None) -> None:
        self._member = member
        if member is not None:
            for topic, hear in self._topics.items():
                member.service.notes.listen(topic, hear)

    @property
    def name(self) -> str:
        """Name of this host; empty while it does not take part."""
        member = self.member
        return member.service.settings.name if member is not None else ""

    def agreement(self) -> AgreementStatus | None:
        """Return which plan this host is to follow; None while it does not take part."""
        return self.member.agreement() if self.member is not None else None

    def owners(self) -> Mapping[str, str]:
        """Return address -> the member that has it; an address that several claim is left out."""
        member = self.member
        if member is None:
            return {}
        store = member.service.node.store
        moment = member, store.changes(MEMBER, ADDRESSES)
        if self._owners[0] != moment:
            pairs = []
            for name in store.writers():
                pairs.append((name, member.service.node.address(name)))
                held = store.get(name, (ADDRESSES, ""))
                if held is not None and isinstance(held.content, Addresses):
                    pairs += [(name, f"[{at}]:0") for at in held.content.addresses if _is_plain(at)]
            self._owners = moment, profile_records.by_address(pairs)
        return self._owners[1]

    @property
    def moment(self) -> object:
        """A value that changes with the records of others and with who is alive; None while this
        host does not take part."""
        member = self.member
        if member is None:
            return None
        node = member.service.node
        return member, node.store.revision, node.members.changes

    def records(self) -> Mapping[str, Mapping[Slot, CheckedRecord]]:
        """Return all records of the members that are alive, this one among them.

        Records never change, so that another thread may read them."""
        member = self.member
        if member is None:
            return {}
        node = member.service.node
        return {
            name: node.store.of(name)
            for name in node.store.writers()
            if node.store.member(name) is not None
            and (name == node.name or node.members.state(name) is State.ALIVE)
        }

    def job(self, name: str) -> JobProfile | None:
        """Return what the hosts of a job publish of it together; None: nothing yet."""
        member = self.member
        if member is None:
            return None
        return member.service.coordinator.snapshot.job(name)

    def gone(self, name: str, silent_s: float) -> bool:
        """Tell whether a member's agent is dead, or suspect and silent for `silent_s` seconds."""
        member = self.member
        if member is None:
            return True
        state = member.service.node.members.state(name)
        if state is State.ALIVE:
            return member.service.node.store.member(name) is None
        heard = member.service.transport.link(name).heard_s
        return state is State.DEAD or heard is None or heard > silent_s

    def publish(self, kind: str, contents: Mapping[str, Content]) -> None:
        """Publish exactly these records of a kind, by key; those that are not among them any more
        are withdrawn.  Records that are out of bounds are noted in `refusals`."""
        member = self.member
        if member is not self._published_by:
            self._published_by, self._published = member, {}
        if member is None:
            return
        node = member.service.node
        self.refusals = {at: why for at, why in self.refusals.items() if at[0] != kind}
        for key, content in contents.items():
            if self._published.get((kind, key)) == content:
                continue
            try:
                node.publish(kind, key, content)
                self._published[kind, key] = content
            except PayloadError as error:
                self.refusals[kind, key] = one_line(str(error))
        for at in [at for at in self._published if at[0] == kind and at[1] not in contents]:
            node.withdraw(*at)
            del self._published[at]

    def refused(self, kind: str) -> dict[str, str]:
        """Return key -> why others would not take it, of the records of a kind."""
        return {key: why for (of, key), why in self.refusals.items() if of == kind}

    def published(self, kind: str, key: str) -> Content | None:
        """Return the record that is published; None: none is."""
        return self._published.get((kind, key)) if self._published_by is self.member else None

    def listen(self, topic: str, hear: Hear | None) -> None:
        """Have notes of a topic delivered to `hear`, also as another member; None: no more."""
        if hear is None:
            self._topics.pop(topic, None)
        else:
            self._topics[topic] = hear
        member = self.member
        if member is not None:
            member.service.notes.listen(topic, hear)

    def send(self, peer: str, topic: str, data: bytes) -> bool:
        """Send a note to a member; it may get lost.  Returns whether it was sent."""
        member = self.member
        return member is not None and member.service.notes.say(peer, topic, data)

    def flush(self) -> None:
        """Send queued notes now."""
        member = self.member
        if member is not None:
            member.service.notes.flush()


def _is_plain(text: str) -> bool:
    try:
        return str(ipaddress.ip_address(text)) == text
    except ValueError:
        return False
