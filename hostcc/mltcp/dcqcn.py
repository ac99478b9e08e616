"""MLTCP for RoCE by the NIC's rate-increase parameters: which values for which F. Pure.

DCQCN (Zhu et al., SIGCOMM 2015, section 5) raises a sender's rate every T microseconds, by R_AI in
the additive phase. A larger R_AI or a smaller T makes a sender more aggressive. So F scales R_AI
(MLTCP), and a constant weight divides T. In Rajasekaran's experiment T is 125 us, and 100 us for
the job with priority (MIT thesis 2025, section 3.1). The parameters belong to a port, so it can be
tuned only while a single job uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hostcc.errors import InputError
from hostcc.limits import WEIGHT_MAX, WEIGHT_MIN
from hostcc.model import Change, Difference, Value

KIND = "dcqcn"


class Knob(StrEnum):
    """Rate-increase parameters; the value is mlx5's name in sysfs, without its prefix."""

    TIME_RESET = "time_reset"
    """T, us: time between rate increases."""
    BYTE_RESET = "byte_reset"
    """B, units of the device: bytes between rate increases."""
    AI_RATE = "ai_rate"
    """R_AI, Mbit/s: increase in the additive phase."""
    HAI_RATE = "hai_rate"
    """R_HAI, Mbit/s: increase in the hyper-increase phase."""
    THRESHOLD = "threshold"
    """Increases in each phase."""


BOUNDS: Mapping[Knob, tuple[int, int]] = {
    Knob.TIME_RESET: (1, 131_071),
    Knob.BYTE_RESET: (1, 32_767),
    Knob.AI_RATE: (1, 400_000),
    Knob.HAI_RATE: (1, 400_000),
    Knob.THRESHOLD: (1, 31),
}
"""Range of values that hostcc writes; a device may accept less."""
PLAIN_T_US, EAGER_T_US = 125, 100
"""T in the thesis's experiment: for fair sharing, and for the job with priority, which corresponds
to a weight of 1.25."""

Values = Mapping[Knob, int]


@dataclass(frozen=True)
class Port:
    """A NIC port whose parameters can be set."""

    name: str
    """Name of its network interface."""
    jobs: tuple[str, ...]
    """Jobs that send through it."""


def of_weight(plain: Values, weight: float) -> dict[Knob, int]:
    """Return the values for static unfairness: T divided by the weight. Raises InputError."""
    _check(weight)
    return _bounded({Knob.TIME_RESET: plain[Knob.TIME_RESET] / weight}, plain)


def of_f(plain: Values, f: float) -> dict[Knob, int]:
    """Return the values for MLTCP: R_AI and R_HAI times F(bytes_ratio). Raises InputError."""
    _check(f)
    scaled = {knob: plain[knob] * f for knob in (Knob.AI_RATE, Knob.HAI_RATE) if knob in plain}
    return _bounded(scaled, plain)


def step_of(ratio: float, steps: int, now: int | None = None, slack: float = 0.25) -> int:
    """Return which of `steps` equal steps a bytes_ratio falls into; a NIC takes long to write to.

    `now`: the step in force, which is kept while the ratio is within `slack` of a step's width
    around it, so that noise causes no writes.
    """
    ratio = min(max(ratio, 0.0), 1.0)
    if now is not None and (now - slack) / steps <= ratio < (now + 1 + slack) / steps:
        return now
    return min(int(ratio * steps), steps - 1)


def middle(step: int, steps: int) -> float:
    """Return the bytes_ratio in the middle of a step."""
    return (step + 0.5) / steps


def changes(port: Port, found: Values, wanted: Values, why: str) -> list[Change]:
    """Return the changes that set a port's values.  Raises InputError if another job uses it."""
    _alone(port)
    return [
        _change(port, knob, found[knob], value, why)
        for knob, value in wanted.items()
        if knob in found and found[knob] != value
    ]


def change_id(port: str, knob: Knob) -> str:
    """Return the id of a change, which is the same in every run."""
    return f"{KIND}:{port}:{knob}"


def stepped(port: Port, plain: Values, steps: Sequence[Values], why: str) -> list[Change]:
    """Return one change for each parameter that follows the job's progress in steps.

    Raises InputError if another job uses the port.
    """
    _alone(port)
    return [
        _change(port, knob, plain[knob], {f"step {n}": v[knob] for n, v in enumerate(steps)}, why)
        for knob in steps[0]
        if knob in plain
    ]


def _change(port: Port, knob: Knob, before: int, after: Value, why: str) -> Change:
    return Change(
        id=change_id(port.name, knob),
        what=KIND,
        target=f"{port.name}/{knob}",
        before=before,
        after=after,
        why=why,
        undo=f"write {before} back",
    )


def allowed(change: Change) -> frozenset[int]:
    """Return the values that a parameter may have while a change is in force."""
    values = change.after.values() if isinstance(change.after, Mapping) else [change.after]
    return frozenset(value for value in values if isinstance(value, int))


def target_of(change: Change) -> tuple[str, Knob]:
    """Return the port and knob of a change. Raises InputError for a change of another kind."""
    port, _, knob = change.target.rpartition("/")
    if change.what != KIND or knob not in list(Knob):
        raise InputError(f"{change.id}: expected a change of a DCQCN parameter")
    return port, Knob(knob)


def differences(active: Iterable[Change], found: Mapping[str, Values]) -> list[Difference]:
    """Return the changes that are no longer in force; `found`: port -> its parameters."""
    gone = []
    for change in active:
        port, knob = target_of(change)
        value = found.get(port, {}).get(knob)
        if value not in allowed(change):
            said = "absent" if value is None else str(value)
            wanted = " or ".join(map(str, sorted(allowed(change))))
            gone.append(Difference(change.id, change.target, wanted, said))
    return gone


def _alone(port: Port) -> None:
    if len(port.jobs) > 1:
        raise InputError(
            f"{port.name}: DCQCN parameters apply to the whole port: expected one job, "
            f"got {', '.join(port.jobs[:4])}"
        )


def _bounded(values: Mapping[Knob, float], plain: Values) -> dict[Knob, int]:
    return {
        knob: min(max(round(value), BOUNDS[knob][0]), BOUNDS[knob][1])
        for knob, value in values.items()
        if knob in plain
    }


def _check(weight: float) -> None:
    if not WEIGHT_MIN <= weight <= WEIGHT_MAX:
        raise InputError(f"expected {WEIGHT_MIN:g} to {WEIGHT_MAX:g}, got {weight}")
