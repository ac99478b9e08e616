"""Addresses: from the configuration, and from others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.net import address
from hostcc.coord.net.address import Address
from hostcc.errors import InputError
from tests.refusals import is_one_line, refusal_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:7471", "127.0.0.1", 7471),
        ("[::1]:7471", "::1", 7471),
        ("node-1.example:1", "node-1.example", 1),
    ],
)
def test_good_ones(text: str, host: str, port: int) -> None:
    found = address.parse(text, "x")
    assert (found.host, found.port, str(found)) == (host, port, text)
    assert found.endpoint == f"tcp://{text}"


@pytest.mark.parametrize(
    "text",
    [
        *("", ":1", "a", "a:", "a:0", "a:65536", "a:1e3", "::1:5", "[a]:5", "a b:5"),
        *("[fe80::1%eth0]:5", "a..b:5", "-a:5", "a:5\n", "a" * 300 + ":5"),
        *("300.1.1.1:5", "10.1:5", "7:5"),
    ],
)
def test_bad_ones(text: str) -> None:
    refused = refusal_of(address.parse, text, "gossip.listen")
    assert refused.startswith("gossip.listen: expected ")
    assert is_one_line(refused)
    assert address.parse_numeric(text) is None


def test_what_others_say_is_only_dialled_if_it_is_an_address() -> None:
    assert address.parse_numeric("10.0.0.1:5") == Address("10.0.0.1", 5)
    for text in ("localhost:5", "0.0.0.0:5", "[::]:5", "224.0.0.1:5", "[ff02::1]:5", "10.1:5"):
        assert address.parse_numeric(text) is None


def test_seeds() -> None:
    assert address.parse_seed("a@[::1]:5", "s") == ("a", Address("::1", 5))
    assert refusal_of(address.parse_seed, "10.0.0.1:5", "s") == (
        "s: expected NAME@HOST:PORT, got '10.0.0.1:5'"
    )
    assert "s: expected NAME@" in refusal_of(address.parse_seed, "a b@10.0.0.1:5", "s")


def test_kinds() -> None:
    assert Address("127.9.9.9", 1).is_loopback
    assert Address("::1", 1).is_loopback
    assert not Address("localhost", 1).is_loopback
    assert Address("::", 1).is_any
    assert not Address("localhost", 1).is_numeric


@given(st.text(max_size=40))
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    for parse in (address.parse, address.parse_seed):
        try:
            parse(text, "x")
        except InputError as error:
            assert is_one_line(str(error))
