"""Pure: what the command line changes in a scenario, under the rules of scenario files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hostcc.lab.scenario import Scenario, from_document

FABRIC_KEYS = {
    "rate": "rate_mbit",
    "buffer": "buffer_packets",
    "rtt_us": "base_rtt_us",
    "mtu": "mtu",
    "ecn": "ecn_threshold_packets",
}
JOB_KEYS = {
    "flows": "flows",
    "jitter": "jitter_percent",
    "declare_flops": "declare_flops",
}
RUN_KEYS = {"iterations": "iterations", "alone": "alone_iterations"}


def overridden(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """The scenario with changes by option name; None changes nothing.  Raises InputError."""
    document = without_none(msgspec.to_builtins(scenario))
    targets = (
        (RUN_KEYS, [document]),
        (FABRIC_KEYS, [document["fabric"]]),
        (JOB_KEYS, document["job"]),
    )
    for keys, tables in targets:
        for option, key in keys.items():
            if changes.get(option) is not None:
                for table in tables:
                    if key in table:  # jobs on a dumbbell declare no work
                        table[key] = changes[option]
    return from_document(document, "command line")


def without_none(value: Any) -> Any:
    """A document without the keys that are None, which TOML cannot say."""
    if isinstance(value, dict):
        return {key: without_none(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [without_none(entry) for entry in value]
    return value
