"""What can be compared: a kernel congestion control, or an agent with a configuration."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostcc.lab.scenario import Scenario
from hostcc.system.validate import refusal

CONTROL_NAME_MAX = 16
"""TCP_CA_NAME_MAX, with the byte that ends it."""
FALL_BACK = "cubic"
"""Default control of hosts that run an agent: what their other sockets get."""


@dataclass(frozen=True)
class Variant:
    """One column of a comparison."""

    name: str
    default_control: str = FALL_BACK
    """The namespaces' net.ipv4.tcp_congestion_control."""
    socket_control: str = ""
    """Set per socket by the built-in traffic; for controls that may not be a default."""
    agent: Mapping[str, Any] | None = field(default=None)
    """Configuration of the agents; None: no agents."""
    pinned: bool = False
    """On a leaf-spine fabric: flows are routed as the best assignment says."""


def _mltcp(variant: str, scope: str = "job") -> dict[str, Any]:
    return {"mltcp": {"mode": "mltcp", "variant": variant, "ratio_scope": scope}}


def _plan(*, marks: bool = False, paths: str = "hostcc") -> dict[str, Any]:
    return {"plan": {"paths": paths}, "marking": {"enabled": marks}}


def _paths(*, move: bool = True) -> dict[str, Any]:
    return {"paths": {"enabled": True, "steer": move, "connect": move}}


PLAIN: dict[str, Any] = {"mltcp": {"mode": "off"}}
BUILTIN: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("hostcc", agent=_mltcp("hostcc")),
        *(Variant(f"mltcp-{name}", agent=_mltcp(name)) for name in ("reno", "cubic", "dctcp")),
        *(
            Variant(f"published-{name}", agent=_mltcp(name, "flow"))
            for name in ("reno", "cubic", "dctcp")
        ),
        *(Variant(name, default_control=name) for name in ("cubic", "reno", "bbr")),
        Variant("best", pinned=True),
        Variant("mltcp", agent={**_mltcp("hostcc"), "plan": {"enabled": False}}),
        Variant("paths", agent={**PLAIN, **_plan(), **_paths()}),
        Variant(
            "priorities",
            agent={
                **PLAIN,
                **_plan(marks=True, paths="stay"),
                **_paths(move=False),
            },
        ),
        Variant("paths-marks", agent={**PLAIN, **_plan(marks=True), **_paths()}),
        Variant("all", agent={**_mltcp("hostcc"), **_plan(marks=True), **_paths()}),
    )
}
"""`published-*` keep a bytes ratio per flow, as in the paper; `mltcp-*` share it in the job.

From `best` on they are for leaf-spine fabrics with gossip.  `mltcp`, `paths` and `priorities` have
one part of hostcc alone, `paths-marks` all but the congestion control.
"""


def resolve(names: Sequence[str], scenario: Scenario) -> tuple[Variant, ...]:
    """Variants by name: the scenario's own, then built-in ones, then any kernel control.

    Raises InputError for a name that is none of them.
    """
    return tuple(_resolve(name, scenario) for name in names)


def by_socket(control: str) -> Variant:
    """A registered congestion control, chosen per socket on both ends.  Raises InputError."""
    if not is_registered(control):
        raise refusal("--cc", "", "a congestion control that this kernel has", control)
    return Variant(control, socket_control=control)


def _resolve(name: str, scenario: Scenario) -> Variant:
    for own in scenario.variant:
        if own.name == name:
            agent = None if own.agent is None else merge(scenario.agent, own.agent)
            return Variant(name, own.congestion_control or FALL_BACK, agent=agent)
    if name in BUILTIN:
        variant = BUILTIN[name]
        if variant.agent is None:
            return variant
        return Variant(name, variant.default_control, agent=merge(scenario.agent, variant.agent))
    if is_registered(name):
        return by_socket(name)
    known = ", ".join([*(own.name for own in scenario.variant), *BUILTIN])
    raise refusal("variants", "", f"one of {known}, or a registered control", name)


def is_registered(control: str) -> bool:
    """Whether the kernel has a congestion control, or a module that it can load for it."""
    if not 1 <= len(control.encode()) < CONTROL_NAME_MAX:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        try:
            trial.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        except PermissionError:  # it is there, for root
            return True
        except OSError:
            return False
    return True


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one configuration over another, table by table."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged
