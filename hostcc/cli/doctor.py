"""`hostcc doctor`: what this host can do, what is missing and how to get it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    emit,
    print_json,
    table,
)
from hostcc.errors import Exit
from hostcc.foreign import say

if TYPE_CHECKING:
    from hostcc.cli.findings import Finding

COLUMNS = [("", "left"), ("Feature", "left"), ("Found", "left"), ("Serves", "left")]


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(
        subparsers, "doctor", "what this host can do, what is missing and how to get it"
    )
    parser.epilog = "Exit status 1 when the agent could not act on this host."
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Try everything and tell."""
    from hostcc.cli import diagnosis

    findings = diagnosis.examine(args.socket)
    fit = diagnosis.healthy(findings)
    if args.json:
        print_json(diagnosis.document(findings))
    else:
        render(findings, fit)
    return Exit.OK if fit else Exit.FAILED


def render(findings: list[Finding], fit: bool) -> None:
    """A table, then what to do about what is missing."""
    emit(table(COLUMNS, ((mark(f), f.name, f.detail, f.serves) for f in findings)))
    say()
    for required in (True, False):
        lacking = [f for f in findings if f.remedy and f.required is required]
        if lacking:
            say("Needed:" if required else "Optional:")
        for finding in lacking:
            say(f"  {finding.name}: {finding.remedy}")
    say("The agent can act on this host." if fit else "The agent cannot act on this host.")


def mark(finding: Finding) -> str:
    """ok, MISSING (needed), missing (optional), or ?."""
    if finding.state == "unknown":
        return "?"
    if finding.state == "missing" and finding.required:
        return "MISSING"
    return str(finding.state)
