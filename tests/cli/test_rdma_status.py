"""What people read of RDMA in `hostcc status`."""

from __future__ import annotations

from typing import Any

import pytest

from hostcc.answers.parts import part_of
from hostcc.cli import rdma_status

pytestmark = pytest.mark.unit
PAIR: dict[str, Any] = {
    "qpn": 7, "device": "mlx5_0", "source": "198.18.1.1", "destination": "198.18.2.1",
    "port": 50001, "path": "right", "class": 104, "bytes": 10**9, "moves": 1, "failed": 0,
}  # fmt: skip
JOB: dict[str, Any] = {
    "job": "train", "processes": 2, "iterations": 41, "bytes": 2 * 10**9, "moves": 2, "failed": 0,
    "queue_pairs": 2, "left_alone": 0,
    "told": {"level": 1, "class": 104, "ports": "198.18.2.1: 50001", "links": "mlx5_0:0",
             "rate": None},
    "largest": [PAIR, {**PAIR, "qpn": 8, "port": 50003}],
}  # fmt: skip
LINK: dict[str, Any] = {
    "link": "0000:3b:00.0", "jobs": ["train", "other"], "participants": 2, "handovers": 12,
    "rescues": 0, "given_up": 0, "utilisation": None, "contended": None,
}  # fmt: skip


def parts(*jobs: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [
        {"name": "traffic"},
        {"name": "rdma-plan", "rdma": list(jobs), "unknown": {}, **more},
        {"name": "pcie", "shared_links": []},
        {"name": "dcqcn", "set": {}},
    ]


def lines(rows: list[dict[str, Any]]) -> list[str]:
    return rdma_status.lines(map(part_of, rows))


def test_a_host_without_rdma_says_nothing() -> None:
    assert lines([]) == []
    assert lines([{"name": "rdma-plan", "state": "off", "reason": "no RDMA device"}]) == []
    idle = {**JOB, "processes": 0, "queue_pairs": 0, "largest": []}
    assert lines(parts(idle)) == []  # every job has an entry


def test_what_a_job_is_told_and_where_it_is() -> None:
    assert lines(parts(JOB)) == [
        (
            "RDMA train: level 1, DSCP 26, takes turns at PCIe, 2 queue pairs of 2 processes, "
            "2.00 GB in 41 iterations, 2 moved live"
        ),
        "  198.18.1.1 to 198.18.2.1: path right, source ports 50001 50003, DSCP 26",
    ]


def test_queue_pairs_with_short_messages() -> None:
    (first, _) = lines(parts({**JOB, "short": 1}))
    assert first.endswith(", 1 with short messages stay where they are")


def test_what_is_not_known_or_not_planned() -> None:
    quiet = {**PAIR, "port": None, "path": None, "class": 0}
    job = {**JOB, "told": None, "processes": 1, "queue_pairs": 1, "iterations": 1, "moves": 0,
           "failed": 3, "left_alone": 2, "largest": [quiet]}  # fmt: skip
    unknown = {"198.18.1.1 > 198.18.2.1": "nobody answers"}
    assert lines(parts(job, unknown=unknown)) == [
        (
            "RDMA train: no plan, 1 queue pair of 1 process, 2.00 GB in 1 iteration, "
            "3 could not be moved, 2 left alone for want of room"
        ),
        "  198.18.1.1 to 198.18.2.1: path unknown, source port as the device likes, DSCP 0",
        "RDMA paths 198.18.1.1 > 198.18.2.1: nobody answers",
    ]
    told = {"level": 7, "class": None, "ports": None, "links": None, "rate": 12_500_000_000}
    (line, _) = lines(parts({**job, "told": told}))
    assert line.startswith("RDMA train: level 7, class as it is, at most F times 12.5 GB/s, 1 ")


def test_many_ends_are_cut() -> None:
    many = [{**PAIR, "destination": f"198.18.3.{n}"} for n in range(rdma_status.ENDS_SHOWN + 2)]
    shown = lines(parts({**JOB, "largest": many}))
    assert len(shown) == rdma_status.ENDS_SHOWN + 2
    assert shown[-1] == "  and 2 more"


def test_links_and_parameters() -> None:
    rows = parts()
    busy = {**LINK, "rescues": 1, "given_up": 2, "utilisation": 0.83, "contended": True}
    rows[2]["shared_links"] = [LINK, busy]
    rows[3]["set"] = {"eth0:rpg_time_reset": 125}
    assert lines(rows) == [
        "PCIe 0000:3b:00.0, shared by train, other: 2 participants, 12 hand-overs",
        (
            "PCIe 0000:3b:00.0, shared by train, other: 2 participants, 12 hand-overs, 1 rescued, "
            "2 out of patience, 83% full, contended"
        ),
        "DCQCN eth0:rpg_time_reset: 125",
    ]


def test_why_queue_pairs_are_not_on_the_planned_path() -> None:
    why = "went back: nothing completes any more"
    shown = lines(parts({**JOB, "elsewhere": {"198.18.2.1": why}}))
    assert shown[-1] == f"  to 198.18.2.1: {why}"
