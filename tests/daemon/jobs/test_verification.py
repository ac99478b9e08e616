"""What counts as a difference, and what is somebody else's choice."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hostcc import limits
from hostcc.answers.host import LeftAlone
from hostcc.config.sections.job import JobRequest
from hostcc.daemon.jobs import verification
from hostcc.daemon.jobs.sockets import Job
from hostcc.mltcp.params import JobParams, Mode, Variant
from tests.fakes import FLOW

NAMES = {"hostcc": "hcc_t_host", "cubic": "hcc_t_cubic"}


def rows(*flows: tuple[int, str, int]) -> np.ndarray:
    made = np.zeros(len(flows), FLOW)
    for row, (slot, name, managed) in zip(made, flows, strict=True):
        row["slot"], row["ca_name"], row["managed"], row["state"] = slot, name, managed, 1
    return made


def job(slot: int, mode: Mode = Mode.MLTCP, variant: Variant = Variant.HOSTCC) -> Job:
    params = JobParams(name=f"j{slot}", variant=variant, mode=mode)
    return Job(f"j{slot}", slot, JobRequest(), params=params)


def test_the_flag_is_the_kernels() -> None:
    header = Path(limits.__file__).parent / "bpf/programs/intf.h"
    assert f"HCC_FLOW_FOREIGN = {verification.FOREIGN}," in header.read_text()


def test_flows() -> None:
    jobs = {1: job(1), 2: job(2, Mode.OFF)}
    table = rows(
        (1, "hcc_t_host", 1),
        (1, "reno", 1),
        (1, "reno", 0),
        (1, "bbr", 2),
        (1, "hcc_t_cubic", 1),
        (2, "reno", 4),
        (2, "hcc_t_host", 1),
        (3, "reno", 1),
    )
    table[-1]["state"] = 1
    found = [(d.target, d.expected, d.found) for d in verification.of_flows(table, jobs, NAMES)]
    assert found == [
        ("job j1", "hcc_t_host", "hcc_t_cubic on 1 connections"),
        ("job j1", "hcc_t_host", "reno on 2 connections"),
        ("job j2", "the host's default", "hcc_t_host on 1 connections"),
    ]
    assert verification.left_alone(table, jobs) == [LeftAlone("j1", "bbr", 1)]
    table["state"] = 6
    assert verification.of_flows(table, jobs, NAMES) == []


def test_dctcp_without_ecn_is_our_reno() -> None:
    names = {"dctcp": "hcc_t_dctcp", "reno": "hcc_t_reno", "cubic": "hcc_t_cubic"}
    jobs = {1: job(1, variant=Variant.DCTCP), 2: job(2, variant=Variant.CUBIC)}
    jobs[3] = job(3, Mode.OFF, Variant.DCTCP)
    table = rows(
        (1, "hcc_t_dctcp", 1),
        (1, "hcc_t_reno", 1),
        (1, "reno", 1),
        (1, "hcc_t_cubic", 1),
        (2, "hcc_t_reno", 1),
        (3, "hcc_t_reno", 1),
    )
    found = [(d.target, d.expected, d.found) for d in verification.of_flows(table, jobs, names)]
    assert found == [
        ("job j1", "hcc_t_dctcp", "hcc_t_cubic on 1 connections"),
        ("job j1", "hcc_t_dctcp", "reno on 1 connections"),
        ("job j2", "hcc_t_cubic", "hcc_t_reno on 1 connections"),
        ("job j3", "the host's default", "hcc_t_reno on 1 connections"),
    ]
    without = {"dctcp": "hcc_t_dctcp"}
    assert [d.found for d in verification.of_flows(table[:2], jobs, without)] == [
        "hcc_t_reno on 1 connections"
    ]
