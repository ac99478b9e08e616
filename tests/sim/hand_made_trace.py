"""A trace of half an hour whose figures are known: five hosts, three jobs that ran."""

from __future__ import annotations

from pathlib import Path

from tests.sim.released_files import job, topo, worker, write

FOUR = '{"nvidia.com/gpu": "4", "cpu": "500m"}'


def minutes(number: int, start: int, end: int, **values: str) -> dict[str, str]:
    """A job that ran between two minutes past midnight."""
    return job(
        number,
        gmt_job_submitted="2023/7/15 0:00",
        gmt_job_running=f"2023/7/15 0:{start:02}",
        gmt_job_finished=f"2023/7/15 0:{end:02}",
        **values,
    )


def write_hand_made(folder: Path, shuffle: int | None = None) -> Path:
    """Two jobs of 16 GPUs share the links of ToRs S1 and S2 from minute 5 to 10."""
    hosts = topo(
        ("a", "P1", "S1"),
        ("b", "P1", "S1"),
        ("c", "P1", "S2"),
        ("d", "P1", "S2"),
        ("e", "P2", "S1"),
    )
    jobs = [
        minutes(1, 0, 10, model="GPT-7b"),
        minutes(2, 5, 20),
        minutes(3, 0, 30, status="Stopped"),
        job(4, gmt_job_running="", gmt_job_finished=""),
        minutes(5, 7, 7),
    ]
    workers = [
        worker(1, "job1", "a"),
        worker(2, "job1", "c"),
        worker(3, "job2", "b"),
        worker(4, "job2", "d"),
        worker(5, "job3", "e", FOUR),
        worker(6, "job4", "", FOUR),
        worker(7, "job5", "new", FOUR),
        worker(8, "other", "a", ""),
    ]
    return write(folder, jobs, workers, hosts, shuffle)
