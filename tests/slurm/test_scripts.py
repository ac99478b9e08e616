"""The prologs and the epilog by themselves: what they leave, and that nothing stops a job."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import patience

pytestmark = [pytest.mark.unit, pytest.mark.slow]

PACKAGED = Path(__file__).parents[2] / "packaging/slurm"
SCRIPTS = ("prolog", "refresh", "set-weight", "task-prolog", "epilog")
SETTINGS = """
qos high 4
account big 2.5
account odd many
partition test 0.5
rdma yes
marks no
"""
HOSTCC = """#!/bin/sh
echo $$ "$@" >>{log}
[ "$1" = environment ] || exit 0
echo export HOSTCC_JOB=slurm:%J
echo export LD_PRELOAD=/lib/shim.so
echo export NCCL_ENV_PLUGIN=/lib/env.so
"""
HANGS = "#!/bin/sh\necho $$ >>{log}\nexec sleep 1000\n"


class Node:
    """The scripts, with folders of the test's own in place of the host's."""

    def __init__(self, folder: Path) -> None:
        self.lib, self.bin = folder / "lib", folder / "bin"
        self.settings, self.state = folder / "settings", folder / "run"
        self.log = folder / "log"
        shutil.copytree(PACKAGED, self.lib)
        for name in SCRIPTS:
            text = (self.lib / name).read_text()
            for ours, theirs in (
                ("/etc/hostcc/slurm", str(self.settings)),
                ("/run/hostcc/slurm", str(self.state)),
                ("PATH=/usr/local/sbin", f"PATH={self.bin}"),
            ):
                text = text.replace(ours, theirs)
            (self.lib / name).write_text(text)
        self.settings.write_text(SETTINGS)
        self.bin.mkdir()

    def have(self, hostcc: str) -> None:
        path = self.bin / "hostcc"
        path.write_text(hostcc.format(log=self.log))
        path.chmod(0o755)

    def run(self, script: str, **environ: str) -> str:
        done = subprocess.run(
            [self.lib / script],
            env={"PATH": os.environ["PATH"], **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def prolog(self, job: int, **environ: str) -> list[str]:
        """What it leaves for the job's tasks."""
        self.run("prolog", SLURM_JOB_ID=str(job), SLURM_SCRIPT_CONTEXT="prolog_slurmd", **environ)
        return (self.state / str(job)).read_text().splitlines()

    def asked(self) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.partition(" ")[2] for line in lines]

    def close(self) -> None:
        shutil.rmtree(self.state, ignore_errors=True)  # ends what waits for the agent
        for line in self.log.read_text().splitlines() if self.log.exists() else []:
            with suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_shell_reads_them(name: str) -> None:
    assert os.access(PACKAGED / name, os.X_OK)
    subprocess.run(["sh", "-n", PACKAGED / name], check=True)


def test_the_variables_of_a_job(node: Node) -> None:
    node.have(HOSTCC)
    node.prolog(6)
    patience.until((node.state / "environment").exists, "the variables of all jobs")
    assert node.prolog(7) == [
        "export HOSTCC_JOB=slurm:7",
        "export LD_PRELOAD=/lib/shim.so",
        "export NCCL_ENV_PLUGIN=/lib/env.so",
    ]
    assert set(node.asked()) == {"environment --slurm --rdma"}
    # The task prolog adds what the job has already.
    own = {"LD_PRELOAD": "libc.so.6", "NCCL_ENV_PLUGIN": "/mine.so", "SLURM_JOB_ID": "7"}
    out = node.run("task-prolog", **own, SLURM_JOB_QOS="high")
    assert out.splitlines() == [
        "export HOSTCC_JOB=slurm:7",
        "export LD_PRELOAD=/lib/shim.so:libc.so.6",
        "export HOSTCC_WEIGHT=4",
    ]
    node.run("epilog", SLURM_JOB_ID="7")
    left = {node.state / "6", node.state / "environment"}
    # The prolog asks the agent anew behind its back.
    patience.until(lambda: {*node.state.iterdir()} == left, "nothing but what is kept")
    assert node.run("task-prolog", SLURM_JOB_ID="7") == ""


def test_root_tells_the_agent_the_weight(node: Node) -> None:
    node.have(HOSTCC)
    patience.until(lambda: node.prolog(8, SLURM_JOB_QOS="high")[0].endswith(":8"), "the job's name")
    patience.until(lambda: "job slurm:8 --weight 4" in node.asked(), "the weight")


@pytest.mark.parametrize(
    ("environ", "weight"),
    [
        ({"SLURM_JOB_QOS": "high", "SLURM_JOB_ACCOUNT": "big"}, "4"),
        ({"SLURM_JOB_QOS": "other", "SLURM_JOB_ACCOUNT": "big"}, "2.5"),
        ({"SLURM_JOB_QOS": "other", "SLURM_JOB_PARTITION": "test"}, "0.5"),
        ({"SLURM_JOB_QOS": "other", "SLURM_JOB_ACCOUNT": "odd"}, ""),
        ({"SLURM_JOB_QOS": "4", "SLURM_JOB_PARTITION": "qos"}, ""),
        # This Slurm does not tell the prolog: a line that fits comes too early.
        ({"SLURM_JOB_ACCOUNT": "big"}, ""),
    ],
)
def test_the_weight_is_that_of_the_first_line_that_fits(
    node: Node, environ: dict[str, str], weight: str
) -> None:
    lines = node.prolog(9, **environ)
    assert [line for line in lines if "WEIGHT" in line] == (
        [f"export HOSTCC_WEIGHT={weight}"] if weight else []
    )
    if "SLURM_JOB_QOS" not in environ:
        task = {**environ, "SLURM_SCRIPT_CONTEXT": "prolog_task", "SLURM_JOB_ID": "9"}
        assert "export HOSTCC_WEIGHT=2.5\n" in node.run("task-prolog", **task)


def test_a_hostcc_that_hangs_holds_no_job(node: Node) -> None:
    node.have(HANGS)
    assert node.prolog(1, SLURM_JOB_QOS="high") == ["export HOSTCC_WEIGHT=4"]


def test_nor_does_one_that_is_missing_or_a_state_that_cannot_be_kept(node: Node) -> None:
    assert node.prolog(1) == []
    shutil.rmtree(node.state)
    node.state.write_text("")
    for script in ("prolog", "task-prolog", "epilog"):
        assert node.run(script, SLURM_JOB_ID="1") == ""
        assert node.run(script, SLURM_JOB_ID="../x") == ""
        assert node.run(script) == ""
    node.state.unlink()


def test_nor_do_missing_settings(node: Node) -> None:
    node.settings.unlink()
    assert node.prolog(1, SLURM_JOB_QOS="high") == []
