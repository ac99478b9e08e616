"""Parameters of jobs that run: asked for, declared, kept for the next agent, given or not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.config.schema import Config
from hostcc.config.sections.job import JobConfig, JobRequest
from hostcc.config.sections.users import UsersConfig
from hostcc.daemon.jobs import requests
from hostcc.daemon.jobs.table import JobTable
from hostcc.daemon.profiling.iteration_marks import MarkListener
from hostcc.system.slices import at_once
from tests.daemon.jobs.world import OWN, World, running
from tests.daemon.profiling.hosts import ToyHost

pytestmark = pytest.mark.unit
ANN = 1000


def found(world: World, table: JobTable, job: str = "slurm:5", owner: int = ANN) -> None:
    """A job of others' cgroups."""
    group = world.folder / "cg" / job
    group.mkdir(exist_ok=True)
    table.follow(job, [group], "slurm", owner)


def test_a_found_jobs_weight_is_the_next_agents_too(world: World) -> None:
    table = world.agent()
    found(world, table)
    requests.ask(table, "slurm:5", JobRequest(weight=0.5), "asked")
    requests.ask(table, "slurm:5", JobRequest(flops=1e12), "asked")
    assert table.weight_of(table.jobs["slurm:5"]) == 0.5
    assert "job-request:slurm:5" in world.active()
    at_once(table.releasing("stopped"))

    table = world.agent()
    found(world, table)
    assert table.jobs["slurm:5"].asked == JobRequest(weight=0.5, flops=1e12)
    table.follow("slurm:5", (), "no longer found")
    requests.forget_ended(table)
    assert "job-request:slurm:5" not in world.active()
    found(world, table)
    assert table.weight_of(table.jobs["slurm:5"]) == 1.0


def test_it_is_not_another_users(world: World) -> None:
    table = world.agent()
    found(world, table)
    requests.ask(table, "slurm:5", JobRequest(weight=0.5, by_root=True), "asked")
    table = world.agent()
    found(world, table, owner=ANN + 1)
    assert table.jobs["slurm:5"].asked == JobRequest()
    table = world.agent()
    found(world, table)
    assert table.jobs["slurm:5"].asked == JobRequest(weight=0.5, by_root=True)


def test_who_began_as_root_becomes_the_users(world: World) -> None:
    """A prolog asks for a job before a process of its user is there."""
    table = world.agent()
    found(world, table, owner=0)
    requests.ask(table, "slurm:5", JobRequest(weight=2.0, by_root=True), "prolog")
    found(world, table)
    assert requests.owner(table, "slurm:5") == ANN
    assert table.weight_of(table.jobs["slurm:5"]) == 2.0
    table = world.agent()
    found(world, table)
    assert table.weight_of(table.jobs["slurm:5"]) == 2.0


def test_a_job_in_our_cgroup_keeps_it_with_that(world: World) -> None:
    table = world.agent()
    running(world, table, "a", 7, JobRequest(weight=3.0))
    requests.ask(table, "a", JobRequest(weight=0.25), "asked")
    assert table.jobs["a"].params is not None
    assert table.jobs["a"].params.weight == 0.25
    table = world.agent()
    assert table.weight_of(table.jobs["a"]) == 0.25


def test_the_environment_comes_after_who_asks_and_before_the_configuration(world: World) -> None:
    table = world.agent(Config(agent=OWN, job=(JobConfig(name="slurm:5", weight=4.0),)))
    found(world, table)
    assert table.weight_of(table.jobs["slurm:5"]) == 4.0
    requests.declare(table, "slurm:5", JobRequest(weight=0.5), "its environment")
    assert table.weight_of(table.jobs["slurm:5"]) == 0.5
    requests.ask(table, "slurm:5", JobRequest(weight=0.75), "asked")
    requests.declare(table, "slurm:5", JobRequest(weight=0.1), "its environment")
    assert table.weight_of(table.jobs["slurm:5"]) == 0.75
    requests.declare(table, "gone", JobRequest(weight=0.1), "its environment")


def test_what_the_kernel_refuses(world: World) -> None:
    table = world.agent()
    running(world, table, "a", 7, JobRequest())
    world.backend.fail.add("set_job_params")
    with pytest.raises(BpfError):
        requests.ask(table, "a", JobRequest(weight=0.25), "asked")


def test_marks_and_rdma_of_users_as_the_administrator_says(tmp_path: Path) -> None:
    host = ToyHost(tmp_path)
    table = host.act()
    table.register("uid1000:a", JobRequest(), 7, owner=ANN)
    table.register("roots", JobRequest(), 8)
    owners: Any = SimpleNamespace(of={7: "uid1000:a", 8: "roots"}.get)
    part = MarkListener(host, lambda: owners)
    assert [part._job_of(pid) for pid in (7, 8, 9)] == ["uid1000:a", "roots", None]
    none = UsersConfig(rdma=False, marks=False)
    table.configure(msgspec.structs.replace(table.config, users=none))
    assert [part._job_of(pid) for pid in (7, 8, 9)] == [None, "roots", None]
    assert not requests.given(table, "uid1000:a", "rdma")
    assert requests.given(table, "roots", "rdma")
