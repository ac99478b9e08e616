"""The table of jobs on the real kernel and real cgroups."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.jobs import views
from hostcc.daemon.jobs.table import JobTable
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.metering import Metering
from hostcc.measure.meter_kernel import KernelMeter
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.params import Variant
from hostcc.system.cgroups import CgroupTree
from tests.real import available

pytestmark = pytest.mark.kernel


class Fleeting(MltcpKernel):
    """Groups end at the worst moment: looked at, and not attached yet."""

    ending: Path | None = None
    refused: Path | None = None

    def attach_cgroup(self, slot: int, cgroup: Path) -> None:
        if cgroup == self.refused:
            raise BpfError("the kernel refused")
        if cgroup == self.ending:
            cgroup.rmdir()
        super().attach_cgroup(slot, cgroup)


@pytest.fixture
def kernel() -> Iterator[Fleeting]:
    made = Fleeting(secrets.token_hex(2), [Variant.HOSTCC], 60.0)
    yield made
    names = set(made.ca_names.values())
    made.close()
    assert not names & available()


@pytest.fixture
def table(kernel: Fleeting, cgroup: Path, tmp_path: Path) -> JobTable:
    config = Config(agent=AgentConfig(network_namespaces="own"))
    return JobTable(config, kernel, CgroupTree(cgroup), Journal(tmp_path), "cubic")


@pytest.fixture
def groups(cgroup: Path) -> Iterator[list[Path]]:
    made = [cgroup / name for name in ("step0", "step1", "step2")]
    for path in made:
        path.mkdir()
    yield made
    for path in made:
        with contextlib.suppress(FileNotFoundError):
            path.rmdir()


def test_a_found_job_does_without_a_cgroup_that_ends_while_it_is_attached(
    table: JobTable, kernel: Fleeting, groups: list[Path]
) -> None:
    kernel.ending = groups[1]
    table.follow("slurm:1", groups, "slurm")
    job = table.jobs["slurm:1"]
    assert list(job.followed) == [groups[0], groups[2]]
    assert job.params is not None
    assert [row.name for row in views.job_status(table, kernel)] == ["slurm:1"]
    assert kernel.check() == []
    table.follow("slurm:1", [groups[0], groups[2]], "slurm")
    table.follow("slurm:1", [], "no longer found")
    assert table.jobs == {}


def test_a_job_whose_only_cgroup_ends_while_it_is_attached_is_no_job(
    table: JobTable, kernel: Fleeting, groups: list[Path]
) -> None:
    kernel.ending = groups[0]
    table.follow("slurm:1", groups[:1], "slurm")
    assert (table.jobs, views.job_status(table, kernel)) == ({}, [])


def test_a_cgroup_that_the_kernel_refuses_is_said_and_the_others_are_managed(
    table: JobTable, kernel: Fleeting, groups: list[Path]
) -> None:
    kernel.refused = groups[0]
    with pytest.raises(BpfError, match="the kernel refused"):
        table.follow("slurm:1", groups, "slurm")
    assert list(table.jobs["slurm:1"].followed) == groups[1:]
    assert [row.name for row in views.job_status(table, kernel)] == ["slurm:1"]
    kernel.refused = None
    table.follow("slurm:1", groups, "slurm")
    assert set(table.jobs["slurm:1"].followed) == set(groups)


def test_a_meter_does_without_it_too(cgroup: Path, groups: list[Path]) -> None:
    tree = CgroupTree(cgroup)

    attached = []

    class FleetingMeter(KernelMeter):
        def attach_cgroup(self, slot: int, cgroup: Path) -> None:
            if cgroup == groups[1]:
                cgroup.rmdir()
                raise BpfError("job_egress to a cgroup (No such file or directory)")
            super().attach_cgroup(slot, cgroup)
            attached.append((slot, cgroup))

    metering = Metering(FleetingMeter(), tree.identity)
    try:
        metering.sync([LiveJob("slurm:1", 1, tuple(groups))], {}, cgroup)
        assert metering.jobs == {1: "slurm:1"}
        assert attached == [(1, groups[0]), (1, groups[2])], "all in the job's own slot"
        assert metering.check() == []
    finally:
        metering.close()
