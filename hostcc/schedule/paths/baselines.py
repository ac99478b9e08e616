"""Path choice of other systems, for comparison: ECMP's hash and Hedera's annealing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints

UNPLACED = -1


def ecmp(fabric: Fabric, table: Ints, key: Ints, seed: int = 0) -> Ints:
    """Return (F,) candidates by a hash of each flow's `key` (its addresses and ports as a number).

    The hash is SplitMix64's; the usable candidates of a table are numbered in order. Flows without
    usable candidates get UNPLACED.
    """
    usable = fabric.usable
    count = usable.sum(axis=1)
    mixed = _mix(key.astype(np.uint64) ^ _mix(np.array([seed], np.uint64)))
    alive = count[table] > 0
    slot = (mixed % np.maximum(count[table], 1).astype(np.uint64)).astype(np.int64)
    # the slot-th usable candidate: where the running count passes the slot
    ranked = np.argsort(~usable, axis=1, kind="stable")
    return np.where(alive, ranked[table, slot], UNPLACED)


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(value ^ (value >> np.uint64(31)))


def anneal(
    fabric: Fabric,
    table: Ints,
    demand: Floats,
    start: Ints,
    *,
    target: float,
    iterations: int = 10_000,
    seed: int = 0,
) -> Ints:
    """Return (F,) candidates found by simulated annealing (Hedera, NSDI'10, section 4.3).

    Energy is the load over capacity of all links above `target`. A neighbour state has one flow on
    another candidate, the temperature falls linearly to zero, and the best state seen is returned.
    Hedera chooses a core switch per destination, which is equivalent for one flow per destination.
    Random numbers come from `seed`.
    """
    if not len(table):
        return start.copy()
    state = start.copy()
    load = fabrics.loads(fabric, table, demand, state) / fabric.capacity
    options = [np.flatnonzero(row).tolist() for row in fabric.usable]
    many = np.array([len(options[t]) for t in table.tolist()])
    movable = np.flatnonzero(many > 1)
    if not len(movable):
        return state
    generator = np.random.default_rng(seed)
    flows = movable[generator.integers(0, len(movable), iterations)].tolist()
    slots, coins = generator.random(iterations).tolist(), generator.random(iterations).tolist()
    hot = float(np.maximum(load - target, 0).sum()) / 2 or 1.0
    energy, lowest, best = 0.0, 0.0, state.copy()
    for step, flow in enumerate(flows):
        choices = options[int(table[flow])]
        slot = choices[int(slots[step] * len(choices))]
        change = _shift(fabric, table, demand, load, state, flow, slot, target)
        temperature = hot * (1 - step / iterations) / len(movable)
        if change > 0 and coins[step] >= math.exp(-change / temperature):
            continue
        _apply(fabric, table, demand, load, state, flow, slot)
        energy += change
        if energy < lowest - 1e-12:
            lowest, best = energy, state.copy()
    return best


def _touched(fabric: Fabric, path: Ints, capacity: Floats, size: float) -> dict[int, float]:
    pad = len(fabric.capacity) - 2
    return {link: size / float(capacity[link]) for link in path.tolist() if link != pad}


def _shift(
    fabric: Fabric,
    table: Ints,
    demand: Floats,
    load: Floats,
    state: Ints,
    flow: int,
    slot: int,
    target: float,
) -> float:
    """Return the change in energy if a flow moves."""
    rows, size = fabric.table[table[flow]], float(demand[flow])
    old = _touched(fabric, rows[state[flow]], fabric.capacity, -size)
    new = _touched(fabric, rows[slot], fabric.capacity, size)
    change = 0.0
    for link in old.keys() | new.keys():
        before = float(load[link])
        after = before + old.get(link, 0.0) + new.get(link, 0.0)
        change += max(after - target, 0.0) - max(before - target, 0.0)
    return change


def _apply(
    fabric: Fabric,
    table: Ints,
    demand: Floats,
    load: Floats,
    state: Ints,
    flow: int,
    slot: int,
) -> None:
    rows, size = fabric.table[table[flow]], float(demand[flow])
    for path, amount in ((rows[state[flow]], -size), (rows[slot], size)):
        for link, part in _touched(fabric, path, fabric.capacity, amount).items():
            load[link] += part
    state[flow] = slot
