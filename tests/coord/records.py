"""Signed records and nodes for tests of the gossip core."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hostcc.coord.core import codec, payloads
from hostcc.coord.core.message import Message, Outgoing, Record
from hostcc.coord.core.node import Node
from hostcc.coord.core.payloads import Accusation, Content, Member, Profile
from hostcc.coord.core.record_checker import CheckedRecord, RecordChecker
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.signing import SimulatedSigner, SimulatedVerifier

CHECKER = RecordChecker(SimulatedVerifier())


def record(
    writer: str,
    kind: str,
    key: str,
    content: Content | bytes,
    *,
    incarnation: int = 1,
    version: int = 1,
    signer: str = "",
) -> Record:
    """A record, signed by its writer unless another signer is named."""
    payload = content if isinstance(content, bytes) else payloads.encode(content)
    bare = Record(writer, incarnation, version, kind, key, payload, b"")
    signature = SimulatedSigner(signer or writer).sign(codec.signed_bytes(bare))
    return Record(writer, incarnation, version, kind, key, payload, signature)


def member(name: str, incarnation: int = 1, version: int = 1, birth: int = 1) -> Record:
    return record(
        name, "member", "", Member(f"{name}:1", birth), incarnation=incarnation, version=version
    )


def accusation(accuser: str, subject: str, accused: int = 1, version: int = 9) -> Record:
    return record(accuser, "accuse", subject, Accusation(accused), version=version)


def profile(host: str, job: str, work: float = 1e12, version: int = 2, **more: object) -> Record:
    content = Profile(1.0, 0.5, work, 8.0, **more)  # type: ignore[arg-type]
    return record(host, "profile", job, content, version=version)


def held(one: Record) -> CheckedRecord:
    return CHECKER.check(one)


def node(
    name: str,
    settings: Settings | None = None,
    seed: int = 0,
    on_pending: Callable[[], None] | None = None,
) -> Node:
    return Node(
        name,
        f"{name}:1",
        signer=SimulatedSigner(name),
        checker=RecordChecker(SimulatedVerifier()),
        rng=Random(f"{name} {seed}"),
        settings=settings,
        on_pending=on_pending,
    )


def deliver(nodes: dict[str, Node], source: str, outgoing: list[Outgoing], now: float) -> None:
    """Pass messages on, and their answers, until nobody has anything to say."""
    waiting = [(source, one) for one in outgoing]
    while waiting:
        sender, one = waiting.pop(0)
        if one.peer in nodes:
            message = codec.decode(codec.encode(one.payload))
            answers = nodes[one.peer].receive(sender, message, now)
            waiting += [(one.peer, answer) for answer in answers]


def rounds(nodes: dict[str, Node], count: int, start: float = 0.0) -> float:
    """A perfect network; returns the time afterwards."""
    now = start
    for _ in range(count):
        now += 0.2
        for name in list(nodes):
            deliver(nodes, name, nodes[name].tick(now), now)
    return now


def saying(*records: Record) -> Message:
    return Message(1, records=records)
