"""Certificates and lists of revoked ones: what is signed is read, and nothing else is accepted."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.core.payloads import MAX_CERTIFICATE, MAX_REVOCATIONS
from hostcc.coord.keys import certificate_book, certificates, identity
from hostcc.coord.keys.certificate_book import CertificateBook
from hostcc.coord.keys.certificates import CertificateError, Refusal
from hostcc.coord.keys.identity import HostKeys, Member
from tests.refusals import is_one_line

pytestmark = pytest.mark.unit

NOW = 1_800_000_000.0
DAY = 86400.0
MAIN, OTHER = certificates.new_authority("main"), certificates.new_authority("other")
TRUSTED = {MAIN.public.fingerprint: MAIN.public}
HOST = HostKeys("node1", (identity.generate(NOW),))
GOOD = certificates.certify(MAIN, HOST.member, 7, NOW, NOW + DAY)
LIST = certificates.revoke(MAIN, 3, frozenset({7, 9}))


def reason(raw: bytes, now: float = NOW) -> Refusal:
    """Why a book that trusts MAIN refuses a certificate."""
    made = book()
    with pytest.raises(CertificateError) as caught:
        made.learn(raw, now)
    assert is_one_line(str(caught.value))
    assert len(made) == 0
    return caught.value.reason


def book() -> CertificateBook:
    made = CertificateBook()
    made.trust([MAIN.public])
    return made


def test_what_is_signed_is_read() -> None:
    assert certificates.open_certificate(GOOD.raw, TRUSTED) == GOOD
    assert GOOD.member == HOST.member
    assert certificates.open_revocations(LIST.raw, TRUSTED) == LIST
    text = certificates.certificate_text(GOOD).encode()
    assert certificates.parse_signed(text, "certificate", "f") == GOOD.raw
    text = certificates.revocations_text(LIST).encode()
    assert certificates.parse_signed(text, "revocations", "f") == LIST.raw
    text = certificates.authority_text(MAIN.public).encode()
    assert certificates.parse_authority(text, "f") == MAIN.public
    text = certificates.authority_secret_text(MAIN).encode()
    assert certificates.parse_authority_secret(text, "f") == MAIN
    assert MAIN.seed not in repr(MAIN)


def test_the_longest_fit() -> None:
    keys = tuple(
        replace(identity.generate(NOW).public, ends=NOW + 99 * DAY)
        for _ in range(identity.MAX_KEYS)
    )
    longest = certificates.certify(
        MAIN, Member("n" * 64, keys), certificates.SERIAL_MAX, NOW, NOW + DAY
    )
    assert len(longest.raw) <= MAX_CERTIFICATE
    last = certificates.SERIAL_MAX
    serials = frozenset(range(last - certificates.MAX_REVOKED, last))
    made = certificates.revoke(MAIN, last, serials)
    assert len(made.raw) <= MAX_REVOCATIONS
    assert len(certificates.revocations_text(made)) <= certificates.MAX_TEXT


def test_refusals() -> None:
    assert reason(GOOD.raw[:-1]) is Refusal.DAMAGED
    assert reason(GOOD.raw + b"x") is Refusal.DAMAGED
    assert reason(b"") is Refusal.DAMAGED
    assert reason(bytes(MAX_CERTIFICATE + 1)) is Refusal.DAMAGED
    assert reason(LIST.raw) is Refusal.DAMAGED
    theirs = certificates.certify(OTHER, HOST.member, 1, NOW, NOW + DAY)
    assert reason(theirs.raw) is Refusal.UNKNOWN_AUTHORITY
    assert reason(GOOD.raw, NOW + DAY) is Refusal.ENDED
    assert reason(GOOD.raw, NOW - 1) is Refusal.NOT_YET
    # Signed by somebody who only says that he is the authority.
    body, signature = msgspec.msgpack.decode(theirs.raw)
    forged = body.replace(OTHER.public.fingerprint.encode(), MAIN.public.fingerprint.encode())
    assert reason(msgspec.msgpack.encode([forged, signature])) is Refusal.FORGED
    # A signature of a list is none of a certificate, and the other way round.
    body, signature = msgspec.msgpack.decode(LIST.raw)
    with pytest.raises(CertificateError):
        certificates.open_certificate(msgspec.msgpack.encode([body, signature]), TRUSTED)


def test_every_changed_bit_is_noticed() -> None:
    for at in range(len(GOOD.raw)):
        raw = bytearray(GOOD.raw)
        raw[at] ^= 1
        assert reason(bytes(raw)) in {
            Refusal.DAMAGED,
            Refusal.FORGED,
            Refusal.UNKNOWN_AUTHORITY,
        }


@given(st.binary(max_size=MAX_CERTIFICATE + 64))
def test_any_bytes_are_refused_in_one_line(raw: bytes) -> None:
    for read in (certificates.open_certificate, certificates.open_revocations):
        with pytest.raises(CertificateError) as caught:
            read(raw, TRUSTED)
        assert is_one_line(str(caught.value))


def test_a_book_follows_its_authorities() -> None:
    made = book()
    assert made.learn(GOOD.raw, NOW) == (GOOD, True)
    assert made.learn(GOOD.raw, NOW) == (GOOD, False)
    curve = HOST.keys[0].public.curve
    assert made.member_of(curve, NOW) == "node1"
    assert made.keys_of("node1", NOW) == HOST.member.keys
    # It ends, and begins again with a newer one, beside which the old one counts no more.
    assert made.member_of(curve, NOW + DAY) is None
    renewed = certificates.certify(MAIN, HOST.member, 8, NOW + 1, NOW + 9 * DAY)
    assert made.learn(renewed.raw, NOW + 2)[1]
    assert not made.learn(GOOD.raw, NOW + 2)[1]
    assert made.member_of(curve, NOW + DAY) == "node1"
    # Revoked by number: 7 is not the newest one.
    assert made.learn_revocations(LIST.raw)
    assert made.member_of(curve, NOW + 2) == "node1"
    assert made.learn_revocations(certificates.revoke(MAIN, 4, frozenset({8})).raw)
    assert made.member_of(curve, NOW + 2) is None
    assert "revoked" in made.refusal(curve, NOW + 2)
    assert not made.learn_revocations(LIST.raw)
    assert made.member_of(curve, NOW + 2) is None
    # Everything of an authority goes with it.
    made.trust([OTHER.public])
    assert (len(made), made.revoked, made.raw()) == (0, {}, [])


def test_one_key_belongs_to_one_member() -> None:
    made = book()
    made.learn(GOOD.raw, NOW)
    stolen = certificates.certify(MAIN, Member("node2", HOST.member.keys), 9, NOW, NOW + DAY)
    with pytest.raises(CertificateError):
        made.learn(stolen.raw, NOW)
    assert made.member_of(HOST.keys[0].public.curve, NOW) == "node1"


def test_a_book_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_book, "MAX_CERTIFICATES", 3)
    made = book()
    hosts = [HostKeys(f"n{number}", (identity.generate(NOW),)) for number in range(5)]
    for number, host in enumerate(hosts[:3]):
        ends = NOW + (number + 1) * DAY
        made.learn(certificates.certify(MAIN, host.member, 1, NOW, ends).raw, NOW)
    fourth = certificates.certify(MAIN, hosts[3].member, 1, NOW, NOW + 9 * DAY)
    with pytest.raises(CertificateError):
        made.learn(fourth.raw, NOW)
    # What has ended makes room.
    assert made.learn(fourth.raw, NOW + DAY)[1]
    assert len(made) == 3
