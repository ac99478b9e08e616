"""Pure: from run statistics of BPF programs to nanoseconds per ACK."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Hook(msgspec.Struct, frozen=True):
    """How often a hook ran, and for how long in all."""

    calls: int
    ns: int


class Cost(msgspec.Struct, frozen=True):
    """One congestion control under load."""

    acks: int
    """Segments that the senders received: ACKs, and a few bytes of answers."""
    hooks: dict[str, Hook]
    """By the hook's name, as `avoid` or `acked`."""

    @property
    def calls_per_ack(self) -> float:
        """Calls of all hooks."""
        return sum(hook.calls for hook in self.hooks.values()) / self.acks

    @property
    def ns_per_ack(self) -> float:
        """Time in all hooks, what the measuring itself adds included."""
        return sum(hook.ns for hook in self.hooks.values()) / self.acks


def hook_of(program: str) -> str:
    """Which hook a program is: the last part of its name."""
    return program.rpartition("_")[2]


def difference(
    before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]
) -> dict[str, Hook]:
    """Hooks from (calls, ns) of programs by name, before and after."""
    hooks: dict[str, Hook] = {}
    for program, (calls, ns) in after.items():
        first_calls, first_ns = before.get(program, (0, 0))
        known = hooks.get(hook_of(program), Hook(0, 0))
        hooks[hook_of(program)] = Hook(known.calls + calls - first_calls, known.ns + ns - first_ns)
    return hooks


def without(cost: Cost, empty: Cost) -> float:
    """ns per ACK above what as many calls cost on average when they do nothing."""
    calls = sum(hook.calls for hook in empty.hooks.values())
    floor = sum(hook.ns for hook in empty.hooks.values()) / calls if calls else 0.0
    return cost.ns_per_ack - cost.calls_per_ack * floor
