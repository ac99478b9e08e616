"""The table of kernels: a row for each finding, in its place on the page."""

from __future__ import annotations

import json

import pytest

from tests.fleet.table import BEGIN, END, PAGE, markdown, placed


def report(version: str, detail: str) -> str:
    findings = [
        {"name": "root", "state": "ok", "detail": f"kernel {version}", "serves": "everything"},
        {"name": "struct_ops", "state": "ok", "detail": detail, "serves": "congestion control"},
        {"name": "NVML", "state": "missing", "detail": "no GPU", "serves": "GPU work"},
    ]
    return json.dumps({"findings": findings})


def test_a_row_says_what_a_kernel_lacks() -> None:
    rows = markdown({"old": report("6.1", "registered; no links"), "new": report("7.2", "yes")})
    assert rows.splitlines() == [
        "| needed for | old, 6.1 | new, 7.2 |",
        "| --- | --- | --- |",
        "| congestion control (struct_ops) | ok, no links | ok |",
    ]


def test_only_the_table_of_the_page_is_replaced() -> None:
    assert placed(f"a\n{BEGIN}old\n{END}b\n", "new\n") == f"a\n{BEGIN}new\n{END}b\n"
    with pytest.raises(ValueError, match="expected '<!-- table"):
        placed("a\n", "new\n")
    assert placed(PAGE.read_text(), "") != PAGE.read_text()
