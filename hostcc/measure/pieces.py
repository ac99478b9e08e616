"""A series put together from pieces of another, with the fewest steps from one piece to the next.

As haplotypes are from those of others (Li and Stephens, Genetics 2003), by dynamic programming over
the values.  A piece costs what it is wrong by; a step to another piece costs one, and so does each
pause, in which a piece stands still.  Anything else can be inserted, too, for a step and what its
length costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

Costs = npt.NDArray[np.float32]
"""In steps; or values, which are rates."""
Hide = Callable[[int, Costs], None]
"""Of a value's number and what each piece costs for it in each stretch, shape (stretches, pieces):
writes `NEVER` where a piece is not to be taken."""

NEVER = np.float32(1e9)
_ONE = np.float32(1)


def pieced(
    values: Costs, pieces: Costs, step: float, inserted: float, hide: Hide
) -> Iterator[Costs]:
    """The fewest steps that the values up to each can be put together with, of some stretches.

    `values`: shape (values, stretches), of which there is one array of shape (stretches,) each.
    `pieces`: values that follow one another.  `step`: its cost, in squares of values, which is the
    most that a value costs; `inserted`: that of a value that is anything else, in steps.
    """
    # Before the pieces of each stretch is a column for anything else, between walls that no other
    # piece goes on to.  So all stretches fit in one row, for which numpy takes half as long.
    before = np.array([NEVER, inserted, NEVER], np.float32)
    scale = np.float32(step**-0.5)
    every = np.concatenate((np.full(len(before), NEVER), pieces * scale))
    shape = values.shape[1], len(every)
    # A row of ones: to take the lesser of a row and a number takes three times as long.
    most = np.ones(shape, np.float32)
    most[:, : len(before)] = before
    here, ceiling = np.empty_like(most).reshape(-1), most.reshape(-1)
    costs = here.reshape(shape)
    own = costs[:, len(before) :]
    # What it costs so far when a piece goes on, when it pauses, the lesser, and to begin with it.
    going, pausing, lesser = np.full((3, here.size), NEVER)
    anew = np.zeros(here.size, np.float32)
    else_, starts = going.reshape(shape)[:, 1], np.arange(shape[0]) * shape[1]
    else_[:], anew[starts + 1] = 0, 1
    ended, beginning, begun = lesser[:-1], anew[1:], going[1:]
    rows = list(anew.reshape(shape))
    for number, value in enumerate((values * scale)[:, :, None]):
        np.subtract(value, every, out=costs)
        np.multiply(here, here, out=here)
        np.minimum(here, ceiling, out=here)
        hide(number, own)
        np.add(going, _ONE, out=going)
        np.minimum(pausing, going, out=pausing)
        np.minimum(ended, beginning, out=begun)
        np.add(going, here, out=going)
        np.add(pausing, here, out=pausing)
        np.minimum(going, pausing, out=lesser)
        best = np.minimum.reduceat(lesser, starts)
        yield best
        # From the best anything else pauses, and any piece begins.
        else_[:] = best
        for row, steps in zip(rows, best.tolist(), strict=True):
            row.fill(steps + 1)
