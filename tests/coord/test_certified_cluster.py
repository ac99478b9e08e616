"""A hundred simulated hosts join with one public file each, and one of them is revoked."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks.gossip_world import World
from hostcc.coord.core.membership import State
from hostcc.coord.core.message import Outgoing
from hostcc.coord.core.payloads import Profile
from hostcc.coord.core.record_checker import RecordChecker
from hostcc.coord.core.settings import Settings
from hostcc.coord.keys import files
from hostcc.coord.keys.certificates import CertificateError
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net import hello
from hostcc.coord.net.certificate_records import CertificateRecords, publishes
from tests.coord.certified import Issuer, install, new_host

pytestmark = [pytest.mark.unit, pytest.mark.slow]

HOSTS = 100
SETTINGS = Settings(suspect_s=1.0, suspect_factor=2.0, rejoin_s=2.0)
REVOKED = "h7"


class CertifiedWorld(World):
    """Hosts with real keys: they greet each other before their first message, as transports do, and
    a message passes only where both ends accept the other."""

    def __init__(self, top: Path, issuer: Issuer) -> None:
        super().__init__(1, SETTINGS)
        self.top, self.issuer = top, issuer
        self.rings: dict[str, Keyring] = {}
        self.records: dict[str, CertificateRecords] = {}

    def join(self, name: str) -> None:
        """A host with its keys, its certificate and the authority's public file, and no more."""
        host = new_host(name)
        install(self.top / name, host, self.issuer, self.issuer.sign(host))
        ring = self.rings[name] = Keyring(self.top / name)
        node = self.add(name, ring, RecordChecker(ring))
        self.records[name] = CertificateRecords(ring)
        node.add_contact("h0")
        node.publish("profile", f"job-{name}", Profile(1.0, 0.5, 1e12, 8.0))

    def publish(self) -> None:
        """What the service does once in a round."""
        for name, records in self.records.items():
            records.update(self.hosts[name].node, self.now)

    def send(self, source: str, outgoing: list[Outgoing]) -> None:
        super().send(source, [one for one in outgoing if self._connects(source, one.peer)])

    def _connects(self, source: str, target: str) -> bool:
        mine, theirs = self.rings[source], self.rings.get(target)
        if theirs is None:
            return False
        if not theirs.knows(source) or not mine.knows(target):
            nonce = bytes(hello.NONCE_BYTES)
            try:
                asked = hello.parse(hello.greeting(mine, nonce))
                assert asked is not None
                hello.accept(theirs, asked)
                answer = hello.parse(hello.reply(theirs, nonce, ""))
                assert answer is not None
                hello.accept(mine, answer)
            except CertificateError:
                return False
        return theirs.member_of(mine.current.public.curve) == source


def test_a_hundred_hosts_with_one_file_each(tmp_path: Path) -> None:
    issuer = Issuer()
    world = CertifiedWorld(tmp_path, issuer)
    names = [f"h{number}" for number in range(HOSTS)]
    for name in names:
        world.join(name)
    for name in names:
        assert [one.name for one in (tmp_path / name / "allowed").iterdir()] == [f"{name}.pub"]
        assert [one.name for one in (tmp_path / name / "authorities").iterdir()] == ["main.pub"]
    for _ in range(60):
        world.publish()
        world.run(0.5)
        if all(all_alive(world, name, HOSTS - 1) for name in names):
            break
    assert all(all_alive(world, name, HOSTS - 1) for name in names)
    for name in names:
        known = world.hosts[name].node.store
        assert all(known.get(other, ("profile", f"job-{other}")) for other in names)
    events = [event for name in names for event in world.hosts[name].node.take_events()]
    assert not events  # nobody was taken for a stranger meanwhile
    # One list of revoked certificates, as a file on one host.
    serial = names.index(REVOKED) + 1
    path = tmp_path / "h42" / "authorities/main.revoked"
    files.write_revocations(path, issuer.revoke(serial))
    world.rings["h42"].tick(time.monotonic() + 10)
    others = [name for name in names if name != REVOKED]
    for _ in range(80):
        world.publish()
        world.run(0.5)
        if all(world.hosts[name].node.members.is_dead(REVOKED) for name in others):
            break
    for name in others:
        assert world.rings[name].revocations
        assert not world.rings[name].knows(REVOKED)
        assert world.hosts[name].node.members.is_dead(REVOKED)
        assert all_alive(world, name, HOSTS - 2)
    # One member publishes it, and no more.
    store = world.hosts["h3"].node.store
    authority = issuer.keys.public.fingerprint
    publishers = [
        name
        for name in store.writers()
        if (held := store.get(name, ("revoked", authority))) is not None and not held.withdrawn
    ]
    assert publishers == ["h42"]


def all_alive(world: World, name: str, count: int) -> bool:
    members = world.hosts[name].node.members
    return sum(members.state(other) is State.ALIVE for other in members.others) == count


def test_who_publishes_a_list() -> None:
    assert publishes("b", 2, {}, ["a", "c"], bound=True)
    assert not publishes("b", 2, {}, ["a", "c"], bound=False)
    assert publishes("a", 2, {}, ["b", "c"], bound=False)
    assert not publishes("b", 2, {"c": 3}, ["a", "c"], bound=True)
    assert publishes("b", 2, {"c": 1}, ["a", "c"], bound=True)
    # Of two with the same one the first by name goes on.
    assert publishes("b", 2, {"c": 2}, ["a", "c"], bound=True)
    assert not publishes("b", 2, {"c": 2}, ["a", "c"], bound=False)
    assert not publishes("c", 2, {"b": 2}, ["a", "b"], bound=True)
