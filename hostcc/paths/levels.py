"""Which DSCP each priority level of a plan has on the wire.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hostcc.errors import InputError

MAX_LEVELS = 16
MAX_DSCP = 63


@dataclass(frozen=True)
class LevelTable:
    """DSCP by level, level 0 (the most important) first; None: reserved, no job gets it.

    The default takes class selectors (RFC 2474), leaving CS7 and CS6 to the network's own
    traffic and CS0 to whoever is not marked.
    """

    dscp: tuple[int | None, ...] = (None, None, 40, 32, 24, 16, 8)

    def __post_init__(self) -> None:
        if not 1 <= len(self.dscp) <= MAX_LEVELS:
            raise InputError(f"levels: expected 1 to {MAX_LEVELS}, got {len(self.dscp)}")
        for level, value in enumerate(self.dscp):
            if value is not None and not 0 <= value <= MAX_DSCP:
                raise InputError(
                    f"levels[{level}]: expected a DSCP from 0 to {MAX_DSCP}, got {value}"
                )
        used = self.usable
        if not used:
            raise InputError("levels: expected one that is not reserved, got none")
        if len(set(used)) != len(used):
            raise InputError("levels: expected each DSCP once")

    @property
    def usable(self) -> tuple[int, ...]:
        """DSCPs of the levels that jobs may have, most important first."""
        return tuple(value for value in self.dscp if value is not None)

    def tos(self, level: int) -> int:
        """The ToS byte (DSCP << 2) of a plan's level, 0 the highest that jobs may have.

        A plan with more levels than the network has puts the rest into the last one.
        """
        used = self.usable
        return used[min(max(0, level), len(used) - 1)] << 2
