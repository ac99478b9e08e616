"""Names of links and paths, and tables as bytes."""

from __future__ import annotations

import zlib

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostcc.errors import InputError
from hostcc.model import Path, PathTable
from hostcc.paths import encoding, tables
from hostcc.paths.search import SILENT, Hops
from hostcc.paths.tables import LinkNames

pytestmark = pytest.mark.unit

SRC, DST = "198.18.0.2", "198.18.1.2"


def test_a_link_is_called_the_same_by_whoever_crosses_it() -> None:
    one = tables.links_of(SRC, DST, ("gw1", "spine-a", "leaf2-a"))
    other = tables.links_of("198.18.0.6", DST, ("gw2", "spine-a", "leaf2-a"))
    assert one == (f"{SRC}>", ">spine-a", ">leaf2-a", f">{DST}")
    assert one[1:] == other[1:]
    assert one[0] != other[0]


def test_routers_that_answer_from_one_address() -> None:
    links = tables.links_of(SRC, DST, ("leaf1", "spine1", "leaf2"), LinkNames.ROUTER)
    assert links == (f"{SRC}>", "leaf1>spine1", "spine1>leaf2", f">{DST}")


def test_silent_hops_are_never_taken_for_shared() -> None:
    one = tables.links_of(SRC, DST, ("leaf1", SILENT, "leaf2"))
    other = tables.links_of(SRC, "198.18.2.2", ("leaf1", SILENT, "leaf2"))
    assert one[1] != other[1]


def test_aliases() -> None:
    links = tables.links_of(SRC, DST, ("leaf1", "s"), aliases={">s": "leaf1-spine1"})
    assert links == (f"{SRC}>", "leaf1-spine1", f">{DST}")


def test_ids_do_not_depend_on_ports_or_time() -> None:
    hops: Hops = ("leaf1", "spine1", "leaf2")
    one = tables.table_of(SRC, DST, {hops: (3, 1)}, 1.0)
    other = tables.table_of(SRC, DST, {hops: (7,)}, 2.0)
    assert one.paths[0].id == other.paths[0].id
    assert one.paths[0].ports == (1, 3)


names = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=20)
paths = st.builds(
    lambda links, ports: Path(tables.path_id(tuple(links)), tuple(links), tuple(sorted(ports))),
    st.lists(names, max_size=6),
    st.sets(st.integers(1, 65535), max_size=encoding.PORTS_OF_PATH),
)
addresses = st.sampled_from([SRC, DST, "fd00:4843::1"])
path_tables = st.builds(
    PathTable,
    addresses,
    addresses,
    st.lists(paths, max_size=20, unique_by=lambda path: path.id).map(tuple),
    st.integers(0, 2**40).map(lambda ms: ms / 1000),
)


@example(PathTable(SRC, DST, (), 4138.989))
@given(path_tables)
def test_encoding_is_exact(table: PathTable) -> None:
    assert encoding.decode(encoding.encode(table)) == table


def test_encoding_is_small() -> None:
    hops: list[Hops] = [
        ("198.18.0.1", f"198.19.0.{4 * n + 2}", f"198.19.1.{4 * n + 1}") for n in range(16)
    ]
    ways: dict[Hops, tuple[int, ...]] = {
        way: tuple(range(49152 + n, 50000, 16)) for n, way in enumerate(hops)
    }
    data = encoding.encode(tables.table_of(SRC, DST, ways, 1.7e9))
    assert len(data) < 1000
    assert len(encoding.decode(data).paths) == 16


def test_a_large_table_loses_ports_not_paths() -> None:
    ways: dict[Hops, tuple[int, ...]] = {
        (f"leaf{n}", f"spine{n}"): tuple(range(n + 1, 60000, 97)) for n in range(300)
    }
    data = encoding.encode(tables.table_of(SRC, DST, ways, 0.0), ports=4096, max_bytes=8000)
    back = encoding.decode(data)
    assert len(data) <= 8000
    assert len(back.paths) == 300
    assert all(path.ports for path in back.paths)
    with pytest.raises(InputError, match="expected at most 100 bytes"):
        encoding.encode(tables.table_of(SRC, DST, ways, 0.0), max_bytes=100)


@given(st.binary(max_size=300))
def test_bytes_of_strangers(data: bytes) -> None:
    for candidate in (data, zlib.compress(data)):
        with pytest.raises(InputError) as error:
            encoding.decode(candidate)
        assert "\n" not in str(error.value)


def wire(**changed: object) -> bytes:
    fields: dict[str, object] = {
        "version": 1, "src": SRC, "dst": DST, "at": 0, "links": ["a", "b"],
        "paths": [["p", [0, 1], b"\x05"]],
    }  # fmt: skip
    fields.update(changed)
    return zlib.compress(msgspec.msgpack.encode(list(fields.values())))


def test_the_template_is_good() -> None:
    assert encoding.decode(wire()).paths == (Path("p", ("a", "b"), (5,)),)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version": 2}, "version"),
        ({"src": "host"}, "IP address"),
        ({"at": -1}, "milliseconds"),
        ({"at": 1 << 60}, "milliseconds"),
        ({"links": [""]}, "a name"),
        ({"links": ["a\nb", "b"]}, "a name"),
        ({"paths": [["p", [2], b""]]}, "a link from 0 to 1"),
        ({"paths": [["p", [-1], b""]]}, "a link from 0 to 1"),
        ({"paths": [["p", [0] * 33, b""]]}, "at most 32 links"),
        ({"paths": [["p", [0], b""], ["p", [1], b""]]}, "each path once"),
        ({"paths": [["p", [0], b"\x00"]]}, "rising"),
        ({"paths": [["p", [0], b"\xff\xff\x7f"]]}, "rising"),
        ({"paths": [["p", [0], b"\x80"]]}, "whole ports"),
        ({"paths": [["p", [0], b"\xff\xff\xff\x01"]]}, "three bytes"),
        ({"paths": [["p", [0], b"\x01" * 13000]]}, "4096 ports"),
        ({"paths": [["p", [0], b"\x01" * 5000]]}, "4096 ports"),
        ({"paths": [[str(n), [0], b""] for n in range(1025)]}, "1024 paths"),
    ],
)
def test_refused(changed: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        encoding.decode(wire(**changed))


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(b"\x00" * (64 << 20), 9)[: encoding.MAX_BYTES]
    with pytest.raises(InputError):
        encoding.decode(bomb)
    assert zlib.decompressobj().decompress(bomb, 1 << 20)
