"""Pure: configurations for the running agents of a soak, valid and invalid ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BASE: dict[str, Any] = {
    "agent": {"network_namespaces": "all"},
    "mltcp": {"mode": "mltcp"},
    "discover": {"enabled": True, "every_s": 1.0},
    "marking": {"enabled": True},
    "egress": {"queues": "htb", "devices": ["eth0"], "rate_mbit": 1000.0},
    "paths": {"enabled": True, "stale_s": 2.0, "shares": "window"},
}
"""Everything on, beside what the lab sets; the first and the last one of a run."""
VALID: tuple[Mapping[str, Any], ...] = (
    {"mltcp": {"slope": 1.0, "intercept": 0.5}},
    {"mltcp": {"variant": "cubic"}},
    {"mltcp": {"mode": "off"}},
    {"agent": {"heartbeat_stale_s": 3.0}},
    {"agent": {"on_exit": "keep"}},
    {"agent": {"log_level": "debug"}},
    {"marking": {"enabled": False}, "egress": {"queues": "off"}},
    {"egress": {"queues": "off"}},
    {"paths": {"enabled": False}},
    {"gossip": {"enabled": False}},
    {"plan": {"most_loss": 0.5}},
    {"measure": {"enabled": False}},
    {"discover": {"every_s": 2.0}},
)
"""What one is laid over BASE; the next reload takes it away again."""
INVALID: tuple[str, ...] = (
    "[agent\n",
    "[agent]\nheartbeat_s = 'fast'\n",
    "[agent]\nno_such_key = 1\n",
    "[no_such_section]\n",
    "[mltcp]\nslope = 1e9\n",
    "[[job]]\nname = ''\n",
    "\0",
)
"""Whole files."""


def choice(amount: int) -> tuple[Mapping[str, Any], str | None]:
    """What is laid over BASE, and None; or nothing, and a file that is wrong: one of three."""
    number, third = divmod(amount, 3)
    if third:
        return VALID[number % len(VALID)], None
    return {}, INVALID[number % len(INVALID)]
