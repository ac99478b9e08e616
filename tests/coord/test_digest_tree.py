"""Digests of many parts, renewed part by part."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.coord.digest_tree import DigestTree

pytestmark = pytest.mark.unit
PUTS = st.lists(
    st.tuples(st.integers(0, 20), st.one_of(st.none(), st.binary(max_size=2))), max_size=40
)


@given(PUTS)
@settings(max_examples=50, deadline=None)
def test_what_is_there_decides_and_not_how_it_came_about(
    puts: list[tuple[int, bytes | None]],
) -> None:
    grown, left = DigestTree(), dict[int, bytes]()
    for name, content in puts:
        grown.put(b"%d" % name, content)
        grown.digest("rules")
        if content is None:
            left.pop(name, None)
        else:
            left[name] = content
    made = DigestTree()
    for name in sorted(left):
        made.put(b"%d" % name, left[name])
    assert grown.digest("rules") == made.digest("rules")


def test_every_part_and_the_rules_count() -> None:
    tree, seen = DigestTree(), set[str]()
    seen.add(tree.digest("r"))
    for name, content in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", b"")):
        tree.put(name, content)
        seen.add(tree.digest("r"))
    seen.add(tree.digest("q"))
    assert len(seen) == 6
