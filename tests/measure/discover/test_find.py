"""Jobs found on recorded hosts: which, under what name, and who is not believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.limits import MAX_JOBS, is_job_name
from hostcc.measure.discover.find import find
from hostcc.system.processes import (
    ENVIRON,
    FoundJob,
    Kind,
    Pods,
    Process,
    ProcessRef,
    ProcessRule,
    Rules,
    Snapshot,
    UnitRule,
)
from tests.measure.recorded import snapshot

pytestmark = pytest.mark.unit

RULES = Rules()


def jobs(name: str, folder: Path, rules: Rules = RULES) -> dict[str, FoundJob]:
    return {job.id: job for job in find(snapshot(name, folder), rules)}


@pytest.mark.parametrize(
    ("host", "pids", "group"),
    [
        ("slurm-v1", (4200, 4242, 5001), ""),
        ("slurm-v1-nodename", (4242,), ""),
        (
            "slurm-v2",
            (4200, 4242, 4243, 4250),
            "/system.slice/slurmstepd.scope/job_123",
        ),
        ("slurm-v2-nodename", (4242,), "/system.slice/node04_slurmstepd.scope/job_123"),
        ("slurm-linuxproc", (4241, 4242), ""),
    ],
)
def test_a_slurm_job_has_one_name_everywhere(
    host: str, pids: tuple[int, ...], group: str, tmp_path: Path
) -> None:
    job = jobs(host, tmp_path)["slurm:123"]
    assert job.kind is Kind.SLURM
    assert job.pids == pids
    assert job.groups == ((group,) if group else ())
    assert [ref.pid for ref in job.loose] == ([] if group else list(pids))


def test_slurm_in_v1(tmp_path: Path) -> None:
    found = jobs("slurm-v1", tmp_path)
    assert set(found) == {"slurm:123", "slurm:124"}
    assert found["slurm:123"].v1_groups == ("/slurm/uid_1000/job_123",)
    assert found["slurm:123"].evidence == (
        "cgroup /slurm/uid_1000/job_123",
        "SLURM_JOB_ID of process 5001, same user",
    )
    # 4300 says 123, but its cgroup does not; 5000 is another user's.
    assert found["slurm:124"].pids == (4300,)


def test_users_cannot_imitate_slurm(tmp_path: Path) -> None:
    assert set(jobs("slurm-v2", tmp_path)) == {"slurm:123"}
    assert set(jobs("slurm-linuxproc", tmp_path)) == {"slurm:123"}


def test_slurm_by_sluid(tmp_path: Path) -> None:
    found = jobs("slurm-sluid", tmp_path)
    assert set(found) == {"slurm:s5K1KKYAYG5D00"}
    job = found["slurm:s5K1KKYAYG5D00"]
    assert job.groups == ("/system.slice/slurmstepd.scope/s5K1KKYAYG5D00",)
    assert job.pids == (4242,)


def test_slurm_by_environment_only(tmp_path: Path) -> None:
    found = jobs("slurm-environ", tmp_path)
    assert {name: job.pids for name, job in found.items()} == {
        "slurm:123:uid1000": (4242,),
        "slurm:123:uid1001": (4243,),
    }
    assert jobs("slurm-environ", tmp_path / "2", Rules(environ=False)) == {}
    assert jobs("slurm-environ", tmp_path / "3", Rules(slurm=False)) == {}


def test_several_slurm_clusters(tmp_path: Path) -> None:
    assert set(jobs("slurm-v2", tmp_path, Rules(slurm_cluster="east"))) == {"slurm:east:123"}
    assert jobs("slurm-v2", tmp_path / "2", Rules(slurm=False)) == {}


def test_pods_of_one_job_share_a_name(tmp_path: Path) -> None:
    systemd, cgroupfs = jobs("pods-systemd", tmp_path), jobs("pods-cgroupfs", tmp_path)
    assert set(systemd) & set(cgroupfs) == {"k8s:llm-master-0:23456"}
    slices = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
    one, other = systemd["k8s:llm-master-0:23456"], cgroupfs["k8s:llm-master-0:23456"]
    assert one.pids == (4242, 4243)  # with its sidecar
    assert one.groups == (f"{slices}pod0a1b2c3d_0001_4002_8003_0123456789ab.slice",)
    assert one.loose == ()
    assert other.groups == ()
    assert other.v1_groups == ("/kubepods/burstable/pod0a1b2c3d-0004-4002-8003-0123456789ab",)
    assert other.loose == (ProcessRef(4242, 500),)
    alone = systemd["k8s:pod:0a1b2c3d-0003-4002-8003-0123456789ab"]
    assert alone.pids == (4320,)
    assert set(systemd) == {one.id, alone.id}
    assert set(cgroupfs) == {other.id}


def test_which_pods(tmp_path: Path) -> None:
    every = jobs("pods-systemd", tmp_path, Rules(kubernetes=Pods.ALL))
    assert set(every) == {
        "k8s:llm-master-0:23456",
        "k8s:pod:0a1b2c3d-0002-4002-8003-0123456789ab",
        "k8s:pod:0a1b2c3d-0003-4002-8003-0123456789ab",
        "k8s:pod:a19b11d4b9c3fd0dcd6ad9aaf9e2d1ee",
    }
    assert jobs("pods-systemd", tmp_path / "2", Rules(kubernetes=Pods.OFF)) == {}
    each_its_own = jobs("pods-systemd", tmp_path / "3", Rules(environ=False))
    assert set(each_its_own) == {
        "k8s:pod:0a1b2c3d-0001-4002-8003-0123456789ab",
        "k8s:pod:0a1b2c3d-0003-4002-8003-0123456789ab",
    }


def test_nested_pods(tmp_path: Path) -> None:
    assert set(jobs("pods-nested", tmp_path)) == {"k8s:10.244.0.7:29500"}
    every = jobs("pods-nested", tmp_path / "2", Rules(kubernetes=Pods.ALL))
    assert set(every) == {"k8s:10.244.0.7:29500"}  # the imitation is no pod


def test_units(tmp_path: Path) -> None:
    found = jobs("units", tmp_path, Rules(units=(UnitRule("train@*.service"),)))
    [job] = found.values()
    assert job.id.startswith("unit:train-llm.service-")  # "@" cannot be in a name
    assert job.groups == ("/system.slice/system-train.slice/train@llm.service",)
    assert job.pids == (700, 701)
    named = jobs("units", tmp_path / "2", Rules(units=(UnitRule("train@*.service", "llm"),)))
    assert set(named) == {"llm"}
    users = Rules(units=(UnitRule("train@*.service", user=True),))
    everybody = jobs("units", tmp_path / "3", users)
    assert sorted(job.pids for job in everybody.values()) == [(700, 701), (710,)]


def test_plain_processes(tmp_path: Path) -> None:
    rule = ProcessRule("tune", "python*finetune.py*", uid=1000)
    found = jobs("units", tmp_path, Rules(processes=(rule,)))
    assert found["tune"].pids == (720,)  # 721 is another user's, 730 `hostcc run` takes care of
    assert found["tune"].groups == ()
    assert found["tune"].loose == (ProcessRef(720, 500),)
    anybody = jobs("units", tmp_path / "2", Rules(processes=(replace(rule, uid=None),)))
    assert anybody["tune"].pids == (720, 721)


def test_ranks_that_meet(tmp_path: Path) -> None:
    found = jobs("torchrun", tmp_path)
    assert {name: job.pids for name, job in found.items()} == {
        "rdv:bare01.example:uid1000:29500": (800, 801),
        "rdv:bare01.example:uid1002:29500": (810,),
        "rdv:bare02:uid1000:29501": (820,),  # at 127.0.0.1: not a job of other hosts
    }


PATHS = st.sampled_from(
    [
        "",
        "/",
        "/hostcc/a",
        "/slurm/uid_1/job_5/x",
        "/system.slice/slurmstepd.scope/job_7",
        "/kubepods/pod0a1b2c3d-0005-4002-8003-0123456789ab/c",
        "/system.slice/a@b.service",
        "/user.slice/user@5.service/job.service",
    ]
) | st.text(max_size=80)
PROCESSES = st.builds(
    Process,
    pid=st.integers(1, 40),
    parent=st.integers(0, 40),
    uid=st.integers(0, 3),
    comm=st.sampled_from(["python", "slurmstepd"]),
    cmdline=st.sampled_from(["slurmstepd: [5.0]", "python x.py"]) | st.text(max_size=30),
    group=PATHS,
    v1_groups=st.lists(PATHS, max_size=2).map(tuple),
    environ=st.dictionaries(
        st.sampled_from(ENVIRON), st.sampled_from(["0", "1", "::1", "a.b"]) | st.text(max_size=99)
    ),
)


@given(
    st.lists(PROCESSES, max_size=12, unique_by=lambda p: p.pid),
    st.sampled_from(Pods),
    st.booleans(),
)
def test_whatever_processes_say(processes: list[Process], pods: Pods, environ: bool) -> None:
    rules = Rules(
        kubernetes=pods,
        environ=environ,
        units=(UnitRule("*.service", user=True),),
        processes=(ProcessRule("p", "python*", 1),),
    )
    found = find(Snapshot("h", tuple(processes)), rules)
    assert len({job.id for job in found}) == len(found)
    assert all(is_job_name(job.id) for job in found)
    everyone = [pid for job in found for pid in job.pids]
    assert len(everyone) == len(set(everyone))
    for job in found:
        assert {ref.pid for ref in job.loose} <= set(job.pids)
        assert job.pids
        assert job.evidence
    again = find(Snapshot("h", tuple(reversed(processes))), rules)
    assert {job.id for job in again} == {job.id for job in found}


def test_the_number_of_jobs_is_bounded() -> None:
    crowd = tuple(
        Process(pid, group=f"/system.slice/slurmstepd.scope/job_{pid}") for pid in range(1, 3000)
    )
    assert len(find(Snapshot("h", crowd), RULES)) == MAX_JOBS - 1
    theirs = Process(5000, uid=7, environ={"RANK": "0", "MASTER_ADDR": "10.0.0.1"})
    found = find(Snapshot("h", (*crowd, theirs)), RULES)
    assert len(found) == MAX_JOBS
    assert "rdv:10.0.0.1:uid7:0" in {job.id for job in found}


def test_whose_a_job_is() -> None:
    rules = Rules(
        units=(UnitRule("train*.service", user=True), UnitRule("x.service", "x", user=True)),
        processes=(ProcessRule("sweep", "*sweep.py*"),),
    )
    own, user = "/system.slice", "/user.slice/user-7.slice/user@7.service/app.slice"
    job, pod = f"{own}/slurmstepd.scope/job_1", "/kubepods/pod01234567-89ab-cdef-0123-456789abcdef"
    ranks = {"RANK": "0", "MASTER_ADDR": "10.0.0.1"}
    processes = (
        Process(10, uid=0, group=job),
        Process(11, uid=0, group=job),
        Process(12, uid=7, group=job),
        Process(20, uid=65535, group=pod),
        Process(21, uid=0, group=pod, environ=ranks),
        Process(22, uid=0, group=pod),
        Process(30, uid=33, group=f"{own}/train1.service"),
        Process(31, uid=7, group=f"{user}/train2.service"),
        Process(32, uid=7, group=f"{user}/x.service"),
        Process(40, uid=7, cmdline="python sweep.py"),
        Process(50, uid=7, environ=ranks),
        Process(51, uid=0, environ=ranks),
    )
    owners = {job.id: job.owner for job in find(Snapshot("h", processes), rules)}
    assert owners == {
        "slurm:1": 7,
        "k8s:10.0.0.1:0": 0,
        "unit:train1.service": None,
        "unit:train2.service:uid7": 7,
        "x": None,
        "sweep": None,
        "rdv:10.0.0.1:uid7:0": 7,
        "rdv:10.0.0.1:uid0:0": 0,
    }
