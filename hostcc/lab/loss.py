"""Packets that a port loses by chance, in both directions."""

from __future__ import annotations

from pathlib import Path

from hostcc.lab import compile as compiler
from hostcc.lab import netns

DIRECTIONS = ("ingress", "egress")
FILTER_PREFERENCE = 1
"""The filter is applied before all others."""


def program(permille: int) -> Path:
    """The object that loses so many of a thousand packets.  Raises LabError."""
    return compiler.bpf_object("loss.bpf.c", [f"LOST_PERMILLE={permille}"])


def begin(namespace: str, port: str, permille: int) -> None:
    """A port, which has clsact, loses packets from now on.  Raises LabError."""
    lose = program(permille)
    netns.batch(
        "tc",
        [
            f"filter add dev {port} {s} pref {FILTER_PREFERENCE} bpf da obj {lose} sec tc"
            for s in DIRECTIONS
        ],
        namespace,
    )


def end(namespace: str, port: str) -> None:
    """It loses none any more.  Raises LabError."""
    netns.batch(
        "tc", [f"filter del dev {port} {s} pref {FILTER_PREFERENCE}" for s in DIRECTIONS], namespace
    )
