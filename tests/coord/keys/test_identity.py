"""Key files: what is written is read, and nothing else is taken."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.keys import identity
from hostcc.coord.keys.identity import HostKeys, Member
from hostcc.errors import InputError
from tests.refusals import is_one_line, refusal_of

pytestmark = pytest.mark.unit

NOW = 1_800_000_000.0
HOUR = 3600.0
FIRST = HostKeys("node1", (identity.generate(NOW),))
SECOND = identity.rotated(FIRST, NOW, 24 * HOUR)


@pytest.mark.parametrize("host", [FIRST, SECOND])
def test_what_is_written_is_read(host: HostKeys) -> None:
    assert identity.parse_secret(identity.secret_text(host).encode(), "f") == host
    assert identity.parse_public(identity.public_text(host.member).encode(), "f") == host.member


def test_signatures() -> None:
    key = FIRST.keys[0]
    signature = key.sign(b"record")
    assert len(signature) == 64
    assert key.public.verifies(b"record", signature)
    assert not key.public.verifies(b"recorD", signature)
    assert not key.public.verifies(b"record", signature[:-1])
    assert not key.public.verifies(b"record", b"")
    assert not identity.generate(NOW).public.verifies(b"record", signature)


def test_a_rotation_gives_each_key_half_of_the_overlap() -> None:
    old, new = SECOND.keys
    assert SECOND.current(NOW) == old
    assert SECOND.current(NOW + 12 * HOUR - 1) == old
    assert SECOND.current(NOW + 12 * HOUR) == new
    assert SECOND.current(NOW + 100 * HOUR) == new
    assert identity.preferred(SECOND.member, NOW) == (old.public, new.public)
    assert identity.preferred(SECOND.member, NOW + 13 * HOUR) == (new.public, old.public)
    assert identity.preferred(SECOND.member, NOW + 24 * HOUR) == (new.public,)
    assert old.public.fingerprint == FIRST.keys[0].public.fingerprint


def test_rotations_follow_each_other() -> None:
    assert "rotation under way" in refusal_of(identity.rotated, SECOND, NOW + HOUR, HOUR)
    third = identity.rotated(SECOND, NOW + 13 * HOUR, 4 * HOUR)
    assert [key.public.ends for key in third.keys] == [NOW + 17 * HOUR, NOW + 17 * HOUR, None]
    later = identity.rotated(SECOND, NOW + 30 * HOUR, 2 * HOUR)
    assert len(later.keys) == 2
    assert later.keys[0].public.curve == SECOND.keys[1].public.curve


def test_secrets_do_not_show() -> None:
    key = FIRST.keys[0]
    assert key.seed not in repr(FIRST)
    assert key.curve not in repr(FIRST)
    assert key.seed not in identity.public_text(FIRST.member)
    assert key.curve not in identity.public_text(FIRST.member)


PUBLIC = identity.public_text(FIRST.member)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f: name: expected a value, got none"),
        ("name = ", "f: expected TOML"),
        ('name = "a"\n', "f: key: expected a value, got none"),
        ('name = "a"\nkey = []\n', "f: key: expected"),
        (PUBLIC.replace("node1", "no/de"), "f: name: expected 1 to 64 characters"),
        (PUBLIC.replace("node1", ".."), "f: name: expected 1 to 64 characters"),
        (PUBLIC.replace('curve = "', 'curve = "zz'), "expected 64 hexadecimal digits"),
        (PUBLIC.replace("starts", "begins"), "expected one of the keys"),
        (PUBLIC + "ends = 2031-01-01T00:00:00\n", "key.ends: expected a date with its time zone"),
        (PUBLIC + "ends = 1969-01-01T00:00:00Z\n", "key.ends: expected a date from the year"),
        (PUBLIC + "ends = 5\n", "f: key[0].ends: expected"),
        (PUBLIC + PUBLIC[PUBLIC.index("[[key]]") :], "f: key: expected each curve key once"),
        (identity.secret_text(FIRST), "f: expected public keys, got secret ones"),
        ("a = " + "[" * 4000, "f: expected"),
        ("#" * 9000, "f: expected at most 8192 bytes"),
    ],
)
def test_bad_public_files_are_refused(text: str, message: str) -> None:
    refused = refusal_of(identity.parse_public, text.encode(), "f")
    assert message in refused
    assert is_one_line(refused)


def test_halves_that_do_not_fit_are_refused() -> None:
    other = identity.generate(NOW)
    for mixed in (
        dataclasses.replace(FIRST.keys[0], curve=other.curve),
        dataclasses.replace(FIRST.keys[0], seed=other.seed),
    ):
        text = identity.secret_text(HostKeys("node1", (mixed,)))
        refused = refusal_of(identity.parse_secret, text.encode(), "f")
        assert refused == "f: key[0]: expected secret halves of the public ones"


@given(st.binary(max_size=300))
def test_anything_else_is_refused_in_one_line(raw: bytes) -> None:
    for parse in (identity.parse_public, identity.parse_secret):
        try:
            parse(raw, "f")
        except InputError as error:
            assert str(error).startswith("f: ")
            assert is_one_line(str(error))
        else:
            pytest.fail("taken")


@given(st.integers(0, len(PUBLIC) - 1), st.characters(max_codepoint=0x2FF))
def test_one_wrong_character_never_raises_anything_else(at: int, char: str) -> None:
    text = PUBLIC[:at] + char + PUBLIC[at + 1 :]
    try:
        found = identity.parse_public(text.encode(), "f")
    except InputError as error:
        assert is_one_line(str(error))
    else:
        assert isinstance(found, Member)
