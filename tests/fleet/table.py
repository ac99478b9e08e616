"""The table of docs/kernels.md: `python -m tests.fleet.table`, from `hostcc doctor` in guests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.fleet import in_guest
from tests.vm import machine

PAGE = machine.REPOSITORY / "docs/kernels.md"
BEGIN, END = "<!-- table: python -m tests.fleet.table -->\n\n", "\n<!-- end of table -->\n"
OF_THE_MACHINE = frozenset({"root", "kernel controls", "RDMA", "NVML", "agent", "pyverbs"})
"""Findings about the guest, not about its kernel."""


def doctor(kernel: str) -> str:
    """What `hostcc doctor --json` says on a kernel."""
    command = [sys.executable, "-m", "hostcc", "doctor", "--json"]
    outcome = machine.run(command, in_guest.tree_of(kernel))
    assert outcome.status is not None, machine.described(outcome)
    return outcome.output


def markdown(reports: dict[str, str]) -> str:
    """A row for each finding: its state on each kernel; `reports`: kernel -> doctor's JSON."""
    found = [json.loads(text)["findings"] for text in reports.values()]
    versions = [
        next(one["detail"].removeprefix("kernel ") for one in findings if one["name"] == "root")
        for findings in found
    ]
    heads = [f"{name}, {version}" for name, version in zip(reports, versions, strict=True)]
    lines = [["needed for", *heads], ["---"] * (1 + len(heads))]
    by_name = [{one["name"]: one for one in findings} for findings in found]
    for finding, first in by_name[0].items():
        if finding not in OF_THE_MACHINE:
            cells = [_cell(findings[finding]) for findings in by_name]
            lines.append([f"{first['serves']} ({finding})", *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(finding: dict[str, str]) -> str:
    # What follows a semicolon limits a finding that is "ok".
    _, limited, how = finding["detail"].partition("; ")
    return f"{finding['state']}, {how}" if limited else finding["state"]


def placed(page: str, rows: str) -> str:
    """The page with its table replaced.  Raises ValueError for a page without one."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected {BEGIN!r} and {END!r}")
    return f"{before}{begin}{rows}{end}{after}"


def main(page: Path = PAGE) -> None:
    """Ask every kernel that is here, and write the table."""
    rows = markdown({kernel: doctor(kernel) for kernel in in_guest.here()})
    page.write_text(placed(page.read_text(), rows))


if __name__ == "__main__":
    main()
