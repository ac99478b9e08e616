"""A batch job on a real Slurm with accounting, by the page's own commands; and a hung agent."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.node import FREEZER, TOP, Node

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        not all(map(shutil.which, ("slurmctld", "slurmdbd", "munged", "mariadbd"))),
        reason="no Slurm: tools/setup --with-slurm gets it",
    ),
]

PAGE = (TOP / "docs/slurm.md").read_text()
JOB = """
grep . /proc/self/cgroup >one.groups
env >one.new
mv one.new one
while [ ! -e one.end ]; do sleep 0.2; done
"""
# What a user runs is part of the job that it is in.
RUN = """
hostcc run --job inner --weight 3 -- sh -c '
	grep . /proc/self/cgroup >inner.new
	mv inner.new inner.groups
	while [ ! -e inner.end ]; do sleep 0.2; done
' 2>inner.log
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, cgroup2: Path) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("slurm"), cgroup2)
    try:
        installing, *_ = blocks("sh")
        made.run("sh", "-ec", f"cd {TOP}\n{installing}")
        (slurm,) = blocks("ini")
        made.start_slurm(slurm)
        yield made
    finally:
        made.close()


def test_a_job_of_slurm(node: Node) -> None:
    with node.agent("[discover]\nevery_s = 1\n[users]\nmax_weight = 4.0\n"):
        run_a_job(node)


def test_a_user_runs_something_in_a_job(node: Node) -> None:
    with node.agent("[discover]\nevery_s = 1\n[users]\nmax_weight = 4.0\n"):
        number = node.submit(RUN, "--qos=normal")
        name = f"slurm:{number}"
        said = node.root / "mnt/jobs/inner.log"
        node.until(lambda: name in node.jobs() or node.job_state(number) == "FAILED", name)
        assert node.job_state(number) == "RUNNING", said.read_text()
        node.until(lambda: node.jobs()[name]["parameters"]["weight"] == 3, "the weight")
        assert set(node.jobs()) == {name}
        words = f"hostcc run: part of job {name}, as the cgroup that it is in"
        node.until(lambda: words in said.read_text(), "what hostcc run says after that")
        groups = node.root / "mnt/jobs/inner.groups"
        node.until(lambda: groups.exists() and groups.read_text(), "the command's cgroups")
        if FREEZER.is_dir():
            assert f"/uid_65534/job_{number}/step_batch" in groups.read_text()
        node.file("/mnt/jobs/inner.end", "")
        node.until(lambda: node.job_state(number) == "COMPLETED", "the job's end")


def run_a_job(node: Node) -> None:
    # The prolog of a node's first job makes the variables of all, on a busy node behind its back.
    first = node.submit("true")
    node.until((node.root / "run/hostcc/slurm/environment").exists, "the variables of all jobs")
    node.until(lambda: node.job_state(first) == "COMPLETED", "the first job's end")

    number = node.submit(JOB, "--qos=high")
    name = f"slurm:{number}"
    node.until(lambda: name in node.jobs(), name)
    assert set(node.jobs()) == {name}
    node.until(lambda: node.environ("one"), "the job's environment")
    environ = node.environ("one")
    assert environ["SLURM_JOB_QOS"] == "high"
    assert environ["HOSTCC_JOB"] == name
    assert environ["HOSTCC_WEIGHT"] == "4"
    assert environ["HOSTCC_MARK"] == "1"
    assert environ["HOSTCC_MARK_SOCKET"] == "/run/hostcc/marks.sock"
    assert environ["LD_PRELOAD"].endswith("/libhostcc-rdma.so")
    assert Path(environ["NCCL_ENV_PLUGIN"]).exists()
    node.until(lambda: node.jobs()[name]["parameters"]["weight"] == 4, "the weight")

    # The job stays in Slurm's own cgroup, whatever the agent does in version 2.
    groups = (node.root / "mnt/jobs/one.groups").read_text()
    pid = node.jobs()[name]["pids"][0]
    where = node.run("cat", f"/proc/{pid}/cgroup")
    if FREEZER.is_dir():
        slurms = re.findall(r"freezer:(/slurm.*)", groups)
        assert slurms[0].endswith(f"/uid_65534/job_{number}/step_batch")
        assert re.findall(r"freezer:(/slurm.*)", where)[0].startswith(slurms[0].rpartition("/")[0])

    for check in blocks("sh")[1:]:
        node.run("sh", "-ec", check)
    node.file("/mnt/jobs/one.end", "")
    node.until(lambda: name not in node.jobs(), f"{name} to be gone")
    node.until(lambda: node.job_state(number) == "COMPLETED", "the job's end")
    left = sorted(path.name for path in (node.root / "run/hostcc/slurm").iterdir())
    assert left == ["environment"]


def test_a_hung_agent_holds_no_job_and_drains_no_node(node: Node) -> None:
    with node.agent("") as agent:
        agent.send_signal(signal.SIGSTOP)
        try:
            number = node.submit("env >two", "--qos=high")
            node.until(lambda: node.job_state(number) == "COMPLETED", "the job's end")
        finally:
            agent.send_signal(signal.SIGCONT)
        assert node.environ("two")["HOSTCC_WEIGHT"] == "4"
        node.until(lambda: node.state() == "idle", "an idle node")
        assert not (node.root / f"run/hostcc/slurm/{number}").exists()
