"""Edge colouring: proper, with as many colours as the largest degree, for any multigraph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.schedule.paths import colouring

pytestmark = pytest.mark.unit

EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=60)


@given(EDGES)
def test_no_two_edges_of_a_colour_share_an_end(edges: list[tuple[int, int]]) -> None:
    left, right = (np.array(ends) for ends in zip(*edges, strict=True))
    most = int(max(np.bincount(left).max(), np.bincount(right).max()))
    colours = colouring.colour(left, right, most)
    assert colours.min() >= 0
    assert colours.max() < most
    for ends in (left, right):
        assert len(set(zip(ends.tolist(), colours.tolist(), strict=True))) == len(edges)


@given(EDGES, st.integers(1, 5))
def test_copies_hold_no_more_than_their_size_and_are_as_few_as_can_be(
    edges: list[tuple[int, int]], size: int
) -> None:
    vertex = np.array([edge[0] for edge in edges])
    copies = colouring.split(vertex, size)
    assert np.bincount(copies).max() <= size
    assert len(np.unique(copies)) == sum(-(-count // size) for count in np.bincount(vertex))
    for copy in np.unique(copies):
        assert len(np.unique(vertex[copies == copy])) == 1


def test_a_full_bipartite_graph_needs_long_chains() -> None:
    left, right = (np.array(ends) for ends in zip(*np.ndindex(40, 40), strict=True))
    shuffle = np.random.default_rng(3).permutation(1600)
    colours = colouring.colour(left[shuffle], right[shuffle], 40)
    for ends in (left[shuffle], right[shuffle]):
        assert len(np.unique(ends * 40 + colours)) == 1600
