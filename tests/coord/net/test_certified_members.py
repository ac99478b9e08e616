"""Members that know each other by certificates only, over real sockets on loopback."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hostcc.coord.keys import certificates, files, identity
from hostcc.coord.keys.certificates import Certificate
from hostcc.coord.keys.identity import HostKeys
from hostcc.coord.net import hello
from hostcc.coord.net.address import Address
from hostcc.coord.net.child_transport import ChildTransport
from hostcc.coord.net.service import GossipService, ServiceSettings
from hostcc.coord.net.transport import Transport
from hostcc.coord.net.troubles import Reason
from tests.coord.certified import DAY, Issuer, install, new_host
from tests.coord.members import LOOPBACK
from tests.coord.net.test_service import running
from tests.coord.services import QUICK, QUICK_TRANSPORT, agree, member, planner
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.asyncio, pytest.mark.slow]


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


def certified(top: Path, name: str, issuer: Issuer) -> HostKeys:
    host = new_host(name)
    install(top / name, host, issuer, issuer.sign(host))
    return host


def states(service: GossipService) -> dict[str, int]:
    return service.status().members


def reasons(service: GossipService) -> dict[str, str]:
    return {one.reason: one.text for one in service.status().troubles}


def dialled(services: list[GossipService]) -> int:
    """Connections that were opened so far."""
    transports = [one.transport for one in services]
    return sum(one._dealers.dialled for one in transports if isinstance(one, Transport))


async def test_hosts_join_with_the_authority_alone(tmp_path: Path, issuer: Issuer) -> None:
    for name in "abc":
        certified(tmp_path, name, issuer)
        assert [file.name for file in (tmp_path / name / "allowed").iterdir()] == [f"{name}.pub"]
    first = member("a", tmp_path / "a")
    async with running(first):
        others = [member(name, tmp_path / name, first) for name in "bc"]
        async with running(*others):
            await eventually(lambda: agree([first, *others]))
            await eventually(lambda: all(reasons(one) == {} for one in (first, *others)))
            # One leaves, and finds the others again although it has forgotten all.
            await others[1].stop()
            await eventually(lambda: states(first) == {"alive": 1, "dead": 1})
            again = member("c", tmp_path / "c", first)
            async with running(again):
                await eventually(lambda: agree([first, others[0], again]))


async def test_the_process_of_the_transport_learns_what_the_agent_learns(
    tmp_path: Path, issuer: Issuer
) -> None:
    for name in "abc":
        certified(tmp_path, name, issuer)

    def in_process(name: str, *seeds: GossipService) -> GossipService:
        settings = ServiceSettings(
            name=name,
            listen=LOOPBACK,
            keys=tmp_path / name,
            seeds=tuple((seed.settings.name, seed.transport.address) for seed in seeds),
            gossip=QUICK,
            transport=QUICK_TRANSPORT,
        )
        return GossipService(settings, planner, "test", carry=ChildTransport)

    first = in_process("a")
    async with running(first):
        others = [in_process(name, first) for name in "bc"]
        async with running(*others):
            await eventually(lambda: agree([first, *others]), 60.0)
            revoked = issuer.revoke(2)  # that of b
            files.write_revocations(tmp_path / "a" / "authorities/main.revoked", revoked)
            # c is told by gossip, and its process by its agent.
            await eventually(lambda: states(others[1]) == {"alive": 1, "dead": 1}, 60.0)
            await eventually(lambda: "revoked by its authority" in str(reasons(others[0])), 60.0)


async def test_a_dns_seed(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        certified(tmp_path, name, issuer)
    first = member("a", tmp_path / "a")
    async with running(first):
        at = first.transport.address
        known = socket.getaddrinfo

        def lookup(host: str, *rest: object, **more: object) -> list[object]:
            if host != "members.example":
                return known(host, *rest, **more)  # type: ignore[arg-type, return-value]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", at.port))]

        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        settings = ServiceSettings(
            "b",
            LOOPBACK,
            tmp_path / "b",
            dns_seeds=(Address("members.example", at.port),),
            gossip=QUICK,
            transport=QUICK_TRANSPORT,
        )
        other = GossipService(settings, planner, "test")
        async with running(other):
            await eventually(lambda: agree([first, other]))
            await eventually(lambda: reasons(other) == {})
            assert other.status().seeds == {"reached": 1, "missing": 0}
            await other._seeds.look_up()  # which has everybody asked anew
            assert other.status().seeds == {"reached": 1, "missing": 0}


async def test_a_dns_seed_without_an_address(tmp_path: Path, issuer: Issuer) -> None:
    certified(tmp_path, "a", issuer)
    seed = Address("x" * 64 + ".example", 7471)  # no name at all, so that no server is asked
    settings = ServiceSettings("a", LOOPBACK, tmp_path / "a", dns_seeds=(seed,), gossip=QUICK)
    alone = GossipService(settings, planner, "test")
    async with running(alone):
        await eventually(lambda: Reason.UNRESOLVED in reasons(alone))
        (found,) = alone.status().troubles
        assert found.who == f"seed dns:{seed}"
        assert "no name that can be asked for" in found.text
        assert alone.status().seeds == {"reached": 0, "missing": 1}


Fault = Callable[[Issuer, HostKeys], Certificate]


def truncated(issuer: Issuer, host: HostKeys) -> Certificate:
    found = issuer.sign(host)
    return with_raw(found, found.raw[:-9])


def changed(issuer: Issuer, host: HostKeys) -> Certificate:
    found = issuer.sign(host)
    raw = bytearray(found.raw)
    raw[-1] ^= 1
    return with_raw(found, bytes(raw))


def with_raw(found: Certificate, raw: bytes) -> Certificate:
    return Certificate(found.member, found.serial, found.starts, found.ends, found.authority, raw)


def of_another_host(issuer: Issuer, _host: HostKeys) -> Certificate:
    return issuer.sign(new_host("c"))


FAULTS: dict[str, tuple[Fault, str]] = {
    "ended": (
        lambda issuer, host: issuer.sign(host, time.time() - DAY, time.time() - 60),
        "certificate of b, serial 2: ended at ",
    ),
    "not yet": (
        lambda issuer, host: issuer.sign(host, time.time() + DAY, time.time() + 2 * DAY),
        "certificate of b, serial 2: starts at ",
    ),
    "wrong authority": (
        lambda _, host: Issuer().sign(host),
        "certificate of b: signed by authority ",
    ),
    "truncated": (truncated, "expected a certificate, got one that is truncated or damaged"),
    "changed": (changed, "certificate of b: its signature is not that of authority main"),
    "another host's": (
        of_another_host,
        "certificate of c, serial 2: shown by another host, which does not have its keys",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_certificate_that_is_refused(
    tmp_path: Path, issuer: Issuer, fault: str, logged: list[str]
) -> None:
    certified(tmp_path, "a", issuer)
    host = new_host("b")
    make, words = FAULTS[fault]
    install(tmp_path / "b", host, issuer, None)
    first = member("a", tmp_path / "a")
    async with running(first):
        other = member("b", tmp_path / "b", first)
        assert other.keyring is not None
        # What its own agent would refuse to start with, it shows to others all the same.
        other.keyring._own = make(issuer, host)
        async with running(other):
            await eventually(lambda: Reason.CERTIFICATE in reasons(first))
            await eventually(lambda: Reason.NOT_ACCEPTED in reasons(other))
        (found,) = [one for one in first.status().troubles if one.reason == Reason.CERTIFICATE]
        assert found.who == "address 127.0.0.1"
        assert found.text.startswith(words)
        assert words[:40] in reasons(other)[Reason.NOT_ACCEPTED]
        assert states(first) == {}
        await eventually(lambda: any("'certificate'" in line and words in line for line in logged))


async def test_a_revoked_host_is_cut_off_and_told_why(tmp_path: Path, issuer: Issuer) -> None:
    for name in "abc":
        certified(tmp_path, name, issuer)
    first = member("a", tmp_path / "a")
    async with running(first):
        second, third = (member(name, tmp_path / name, first) for name in "bc")
        async with running(second, third):
            await eventually(lambda: agree([first, second, third]))
            # The list is a file on one host; the others have it from the gossip.
            path = tmp_path / "a" / "authorities/main.revoked"
            files.write_revocations(path, issuer.revoke(3))
            await eventually(lambda: states(second) == {"alive": 1, "dead": 1})
            await eventually(lambda: states(first) == {"alive": 1, "dead": 1})
            await eventually(lambda: Reason.NOT_ACCEPTED in reasons(third))
            assert "revoked by its authority" in reasons(third)[Reason.NOT_ACCEPTED]
            assert second.keyring is not None
            # An older list changes nothing.
            before = second.keyring.revocations
            older = certificates.revoke(issuer.keys, issuer.number, frozenset())
            assert not second.keyring.learn_revocations(older.raw)
            assert second.keyring.revocations == before


async def test_keys_and_authorities_change_while_members_run(
    tmp_path: Path, issuer: Issuer
) -> None:
    hosts = {name: certified(tmp_path, name, issuer) for name in "ab"}
    first = member("a", tmp_path / "a")
    async with running(first):
        second = member("b", tmp_path / "b", first)
        async with running(second):
            services = [first, second]
            await eventually(lambda: agree(services))
            before = dialled(services)
            # A second authority is trusted beside the first one, and signs everybody.
            successor = Issuer(certificates.new_authority("next"))
            for name in "ab":
                files.trust(tmp_path / name, successor.keys.public)
            for name, host in hosts.items():
                path = tmp_path / name / files.CERTIFICATE_FILE
                files.write_certificate(path, successor.sign(host, time.time()))

            def signed_by_successor() -> bool:
                rings = [one.keyring for one in services]
                by = successor.keys.public.fingerprint
                return all(
                    ring is not None
                    and all(
                        (found := ring._book.certificate(name)) is not None
                        and found.authority == by
                        for name in "ab"
                        if name != ring.name
                    )
                    for ring in rings
                )

            await eventually(signed_by_successor)
            # The first authority is trusted no more.
            for name in "ab":
                (tmp_path / name / "authorities/main.pub").unlink()
            await eventually(
                lambda: all(
                    one.keyring is not None and len(one.keyring._book.authorities) == 1
                    for one in services
                )
            )
            await eventually(lambda: agree(services))
            assert dialled(services) == before  # no connection has ended
            # A new key of one host: used only once its certificate names it.
            rotated = identity.rotated(hosts["a"], time.time() - 2, 3.0)
            files.write_host(tmp_path / "a", rotated)
            new = rotated.keys[1].public.fingerprint
            files.write_certificate(
                tmp_path / "a" / files.CERTIFICATE_FILE, successor.sign(rotated, time.time() + 0.0)
            )
            await eventually(lambda: first.status().key == new)
            await eventually(lambda: agree(services))


async def test_greetings_of_every_wrong_form(tmp_path: Path, issuer: Issuer) -> None:
    certified(tmp_path, "a", issuer)
    certified(tmp_path, "b", issuer)
    first = member("a", tmp_path / "a")
    other = member("b", tmp_path / "b")
    assert other.keyring is not None
    good = hello.greeting(other.keyring, bytes(hello.NONCE_BYTES))
    assert len(good) == hello.GREETING_BYTES
    wrong = [
        b"",
        b"\xc1" * 1100,
        good[:-1],
        good[: hello.GREETING_BYTES // 2],
        b"\xdd\xff\xff\xff\xff" + bytes(1200),
        b"\x91" * 1100,
        msgspec.msgpack.encode(["hostcc-hello", b"short", b"", b"", bytes(1100)]),
        msgspec.msgpack.encode(["hostcc-hello", bytes(16), bytes(700), b"", bytes(400)]),
        msgspec.msgpack.encode(["hostcc-reply", bytes(16), b"", b"", "\n" * 300]),
        msgspec.msgpack.encode(["hostcc-reply", bytes(16), b"", b"", ""]),
    ]
    async with running(first):
        at = first.transport.address
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 0))
            sock.setblocking(False)
            for count, data in enumerate(wrong[1:], start=1):
                sock.sendto(data, (at.host, at.port))
                await eventually(
                    lambda count=count: first.transport.counters["refused"] == count  # type: ignore[misc]
                )
            sock.sendto(good, (at.host, at.port))
            answers: list[bytes] = []

            def answered() -> bool:
                try:
                    answers.append(sock.recv(2048))
                except BlockingIOError:
                    return bool(answers)
                return False

            await eventually(answered)
        # Nothing but the good one was answered, and with no more bytes than it had.
        (answer,) = answers
        assert len(answer) <= len(good)
        said = hello.parse(answer)
        assert isinstance(said, hello.Reply)
        assert hello.accept(other.keyring, said) is not None
        assert first.keyring is not None
        assert first.keyring.knows("b")


async def test_hosts_with_an_allow_list_do_not_listen_for_greetings(tmp_path: Path) -> None:
    files.write_host(tmp_path / "a", new_host("a"))
    first = member("a", tmp_path / "a")
    async with running(first):
        at = first.transport.address
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((at.host, at.port))  # nobody has it
