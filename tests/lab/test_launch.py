"""What a job's processes are told, and what is read from them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.lab.launch import Options, Rank, environment, worker_orders
from hostcc.lab.scenario import JobSpec
from hostcc.lab.scenario_hosts import Host

HOSTS = (Host(1, "a", 0, True), Host(2, "a", 1, False))


def rank_that_prints(text: bytes) -> Rank:
    process = subprocess.Popen(
        [sys.executable, "-c", f"import os; os.write(1, {text!r})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    return Rank("a", HOSTS[0], process, Path("/dev/null"), waits=True)


def read_all(rank: Rank) -> Rank:
    while not rank.finished:
        rank.read(100.0)
    rank.process.wait()
    for stream in (rank.process.stdin, rank.process.stdout):
        assert stream is not None
        stream.close()
    return rank


def test_environment_of_the_second_rank() -> None:
    job = JobSpec(name="a", comm_ms=1, compute_ms=2.5, flows=4)
    env = environment(job, 3, HOSTS[1], HOSTS, Options(iterations=60), 1000)
    assert env["HOSTCC_JOB"] == "a"
    assert env["HOSTCC_RANK"] == env["RANK"] == "1"
    assert env["HOSTCC_WORLD_SIZE"] == env["WORLD_SIZE"] == "2"
    assert env["HOSTCC_PEERS"] == "198.18.1.2,198.18.2.2"
    assert env["MASTER_ADDR"] == "198.18.1.2"
    assert env["HOSTCC_PORT"] == env["MASTER_PORT"] == "5300"
    assert env["HOSTCC_ITERATIONS"] == "60"
    assert env["HOSTCC_COMPUTE_MS"] == "2.5"
    assert env["HOSTCC_BYTES"] == "1000"


def test_worker_orders_are_in_seconds() -> None:
    job = JobSpec(
        name="a",
        comm_ms=1,
        compute_ms=250,
        jitter_percent=5,
        bytes_jitter_percent=95,
        start_ms=1500,
    )
    orders = json.loads(worker_orders(job, 77, Options(1, "reno", seed=9)))
    assert orders["compute_s"] == 0.25
    assert (orders["jitter"], orders["bytes_jitter"]) == (0.05, 0.95)
    assert orders["start_s"] == 1.5
    assert (orders["bytes"], orders["congestion_control"], orders["seed"]) == (77, "reno", 9)


def test_lines_with_and_without_clock() -> None:
    rank = read_all(
        rank_that_prints(
            b"ready\niteration 1 0.5 1000000000 1500000000\niteration 2 0.25\n"
            b"epoch 3\nretransmitted 4 100\n"
        )
    )
    assert rank.ready
    first, second = rank.iterations
    assert (first.start, first.end) == (1.0, 1.5)
    assert (second.start, second.end) == (99.75, 100.0)
    assert (rank.retransmitted, rank.sent) == (4, 100)


@pytest.mark.parametrize(
    "line",
    [
        "iteration x 1",
        "iteration 1 y",
        "iteration 1 nan",
        "iteration 1 -1",
        "iteration 1 inf",
        "iteration 1 1 a b",
        "\xff",
    ],
)
def test_lines_that_are_something_else_are_passed_over(line: str) -> None:
    rank = read_all(rank_that_prints(line.encode() + b"\nready\n"))
    assert rank.ready
    assert rank.iterations == []


@given(st.binary(max_size=60) | st.sampled_from([b"iteration 1 1 " + b"9" * 400 + b" 1"]))
def test_no_output_can_break_the_reader(data: bytes) -> None:
    rank = Rank("a", HOSTS[0], None, Path("/dev/null"), waits=True)  # type: ignore[arg-type]
    for line in data.split(b"\n"):
        rank._understand(line.decode(errors="replace").split(), 0.0)
    assert all(0 <= step.seconds <= 1e6 for step in rank.iterations)
