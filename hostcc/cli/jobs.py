"""`hostcc jobs`: the jobs on this host and what they were given."""

from __future__ import annotations

import argparse
from typing import Any

from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    emit,
    show,
    size,
    table,
)

COLUMNS = [
    ("Job", "left"),
    ("Mode", "left"),
    ("Variant", "left"),
    ("Ratio per", "left"),
    ("F", "left"),
    ("Weight", "right"),
    ("Per iter.", "right"),
    ("Found by", "left"),
    ("Processes", "left"),
]


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "jobs", "the jobs on this host and what they were given")
    add_client_options(parser)
    parser.set_defaults(func=lambda args: show(args, "jobs", render))


def render(answer: dict[str, Any]) -> None:
    """The table."""
    if answer["jobs"]:
        emit(table(COLUMNS, map(row, answer["jobs"])))
    else:
        print("no jobs")


def row(job: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    pids = " ".join(map(str, job["pids"][:8])) + (" ..." if len(job["pids"]) > 8 else "")
    given = job["parameters"]
    if given is None:
        return (job["name"], "-", "-", "-", "-", "-", "-", found_by(job), pids or "-")
    static = given["mode"] == "static"
    return (
        job["name"],
        given["mode"],
        given["variant"],
        given["ratio_scope"],
        f"{given['static_weight']:g}" if static else shape(given),
        f"{given['weight']:g}",
        size(given["bytes_per_iteration"]) if given["bytes_per_iteration"] else "learned",
        found_by(job),
        pids or "-",
    )


def shape(given: dict[str, Any]) -> str:
    """F(r) as a formula."""
    if given["shape"] == "table":
        return f"table of {len(given['table'])}"
    if given["shape"] == "exponential":
        return f"{given['intercept']:g} * 2^({given['slope']:g} r)"
    return f"{given['slope']:g} r + {given['intercept']:g}"


def found_by(job: dict[str, Any]) -> str:
    """How its sockets are recognised."""
    ways = ["cgroup"] if job["cgroup"] else []
    ways += [
        f"{side} ports " + ",".join(map(str, job[f"{side}_ports"]))
        for side in ("local", "remote")
        if job[f"{side}_ports"]
    ]
    return "; ".join(ways) or "-"
