"""Claimants of a job that nobody talks to have no part in it."""

from __future__ import annotations

import pytest

from hostcc.coord.core.participants import participants

pytestmark = pytest.mark.unit


def sends(**to: str) -> dict[str, frozenset[str]]:
    return {one: frozenset(others.split()) for one, others in to.items()}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (sends(), ""),
        (sends(a=""), "a"),
        (sends(a="", b=""), "a b"),
        (sends(a="b", b="c", c="a"), "a b c"),
        (sends(a="b", b="a", z="a b"), "a b"),
        (sends(a="b", b="c", c="a", y="z a", z="y b"), "a b c"),
        (sends(s="a b c", a="s", b="s", c="s", z="s"), "a b c s"),
        (sends(a="b", b="outside"), "a b"),
        (sends(a="b", b="a", c="d", d="c"), "a b"),
    ],
    ids=["none", "one", "unknown", "ring", "outsider", "two outsiders", "server", "line", "tie"],
)
def test_who_has_a_part(claims: dict[str, frozenset[str]], expected: str) -> None:
    assert participants(claims) == frozenset(expected.split())
    backwards = dict(reversed(list(claims.items())))
    assert participants(backwards) == frozenset(expected.split())


def test_a_ring_of_thousands() -> None:
    ring = {f"h{i:05}": frozenset({f"h{(i + 1) % 5000:05}"}) for i in range(5000)}
    assert len(participants(ring)) == 5000
