"""Speeds of links, and which of them leads where."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from hostcc.lab import netns
from hostcc.measure.link_speeds import carriers, links, parse_speed, sysfs_speed


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10000\n", 10**10),
        ("400000", 4 * 10**11),
        ("2500", 25 * 10**8),
        ("-1\n", None),
        ("0", None),
        (0xFFFFFFFF, None),
        ("65535000000000", None),
        ("", None),
        ("1e4", None),
        ("٣", None),
        ("10 G", None),
    ],
)
def test_parse_speed(text: str | int, expected: int | None) -> None:
    assert parse_speed(text) == expected


@pytest.mark.unit
def test_sysfs_speed(tmp_path: Path) -> None:
    (tmp_path / "eth0").mkdir()
    (tmp_path / "eth0/speed").write_text("100000\n")
    assert sysfs_speed("eth0", tmp_path) == 10**11
    assert sysfs_speed("eth1", tmp_path) is None


@pytest.fixture
def two() -> Iterator[list[str]]:
    names = [f"hcc-links-{secrets.token_hex(3)}-{side}" for side in "ab"]
    netns.create(names)
    try:
        netns.batch(
            "ip",
            [f"link add eth7 type veth peer name eth7 netns {names[1]}", "link set eth7 up",
             "addr add 198.18.6.1/24 dev eth7", "addr add fd00:4843:6::1/64 dev eth7 nodad",
             "link add none0 type bridge", "link set none0 up",
             "route add 198.18.4.0/24 dev none0"],
            names[0],
        )  # fmt: skip
        netns.batch("ip", ["link set eth7 up"], names[1])
        yield names
    finally:
        netns.remove(names)


@pytest.mark.kernel
def test_in_a_namespace(two: list[str]) -> None:
    where = netns.NAMESPACE_DIRECTORY / two[0]
    found = {link.name: link for link in links(where)}
    # What veth says is nobody's limit; lo and a bridge say nothing.
    assert (found["eth7"].speed_bps, found["eth7"].nominal) == (10**10, True)
    assert (found["lo"].speed_bps, found["none0"].speed_bps) == (None, None)
    wanted = {
        "198.18.6.2": "eth7", "fd00:4843:6::9": "eth7", "198.18.4.9": "none0", "127.0.0.1": "lo",
        "198.18.6.1": "lo", "198.18.99.1": None, "fd00:4843:99::1": None,
    }  # fmt: skip
    by_index = {link.index: link.name for link in found.values()}
    got = carriers([ip_address(text) for text in wanted], where)
    assert {str(a): by_index.get(i) if i else None for a, i in got.items()} == wanted
    assert links(), "our own namespace"
