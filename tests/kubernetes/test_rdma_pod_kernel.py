"""Jobs with RDMA in containers: the init container's devices, applied as a runtime applies them.

The container has mount, PID, network and IPC namespaces of its own, and of the host only what the
devices mount.  Absent hardware: a stand-in for libibverbs (tests/verbs/native/fake_verbs.c) is
plain memory.  The agent is its memory, sockets and readers without the rest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from hostcc.daemon.rdma.pairs import Senders
from hostcc.measure.discover.find import find
from hostcc.measure.discover.owners import Owners
from hostcc.measure.marks import MarkReceiver
from hostcc.pcie.semaphore import Semaphores, Settings
from hostcc.system.process_scan import Scanner
from hostcc.system.processes import FoundJob, Rules, Snapshot
from hostcc.verbs.build import NCCL_ENV, VERBS_HEADER, build_all
from hostcc.verbs.plan_region import PlanRegion, RdmaJob
from hostcc.verbs.process_counts import read_counts
from tests import groups
from tests.kubernetes import container, device_interface, manifests
from tests.kubernetes.device_interface import Edits
from tests.patience import until
from tests.verbs.dialogue import Dialogue
from tests.verbs.test_shim_native import program
from tests.verbs.test_shim_odd import POSTS, SIZE, odd

__all__ = ["odd", "program"]
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
]
UID = "0a1b2c3d-1111-2222-3333-444455556666"
JOB = "k8s:train-rdma-0.train:29500"
PORT, CLASS = 50000, 0x20
MARKING = """
import sys
mark = sys.modules.get("hostcc.mark") or sys.modules["_hostcc_mark"]
mark.iteration()
print("marked", flush=True)
sys.stdin.read()
"""


class KubernetesNode:
    """A node after the init container `devices`; its folders are the test's."""

    def __init__(self, folder: Path, cgroup2: Path) -> None:
        self.name = f"hcct-{uuid.uuid4().hex[:6]}"
        self.shm = Path("/dev/shm") / self.name
        self.folder = folder
        self.library = folder / "job"
        self.root = cgroup2 / self.name
        for made in (self.shm, folder / "cdi", self.library, self.root):
            made.mkdir()
        build_all()
        self._config()
        done = self.start()
        assert (done.returncode, done.stderr) == (0, "")
        self.agent = self.shm / "agent"

    def _config(self) -> None:
        objects = manifests.render(manifests.TOP / "example")
        maps = [one for one in objects if one["kind"] == "ConfigMap"]
        drop_ins = self.folder / "hostcc.d"
        drop_ins.mkdir()
        main = manifests.named(maps, "hostcc")["data"]["hostcc.toml"]
        (self.folder / "hostcc.toml").write_text(main)
        more = manifests.named(maps, "hostcc-rdma")["data"]["rdma.toml"]
        (drop_ins / "rdma.toml").write_text(self._here(more))

    def _here(self, text: str) -> str:
        for old, new in (
            ("/dev/shm/hostcc", self.shm),
            ("/etc/cdi", self.folder / "cdi"),
            ("/var/lib/hostcc/job", self.library),
            ("/etc/hostcc/hostcc.toml", self.folder / "hostcc.toml"),
        ):
            text = text.replace(old, str(new))
        return text

    def start(self) -> subprocess.CompletedProcess[str]:
        """The init container's command."""
        daemon_set = manifests.find(manifests.render(manifests.TOP / "example"), "DaemonSet")
        pod = daemon_set["spec"]["template"]["spec"]
        shell, options, script = manifests.named(pod["initContainers"], "devices")["command"]
        tools = self.folder / "bin"
        tools.mkdir(exist_ok=True)
        wrapper = tools / "hostcc"
        wrapper.write_text(
            f'#!/bin/sh\nPYTHONPATH={container.TOP} exec {sys.executable} -m hostcc "$@"\n'
        )
        wrapper.chmod(0o755)
        return subprocess.run(
            [shell, options, self._here(script)],
            env={"PATH": f"{tools}:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    def devices(self) -> dict[str, Edits]:
        """The only specification that a runtime finds."""
        (file,) = (self.folder / "cdi").iterdir()
        assert file.name == "hostcc.dev-job.json"
        return device_interface.read(file.read_bytes())

    def close(self) -> None:
        shutil.rmtree(self.shm)
        groups.remove(self.root)


class PodContainer(Dialogue):
    """A container with devices; `image`: a folder that it has at /opt/job."""

    def __init__(
        self,
        node: KubernetesNode,
        image: Path,
        devices: Sequence[Edits],
        own: Mapping[str, str],
        words: Sequence[str],
    ) -> None:
        slice_ = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
        group = node.root / "kubepods.slice/kubepods-burstable.slice" / slice_ / "cri-1.scope"
        group.mkdir(parents=True)
        bundle = node.folder / "bundle"
        bundle.mkdir()
        lines = [
            # What of the host's is below these a container sees by its devices only.
            "mount -t tmpfs none tmp",
            "mkdir -p opt/job",
            f"mount --bind {image} opt/job",
            *device_interface.mount_lines(devices),
        ]
        script = "\n".join([container.ROOT, *lines, container.ENTER])
        env = {
            **device_interface.environment(own, devices),
            "BUNDLE": str(bundle), "TOP": str(container.TOP), "PYTHON": "python3",
            "RIGHTS": "-all", "ID": "0", "GID": "0",
        }  # fmt: skip
        # Only the container's program is to load what the devices name.
        late = {name: env.pop(name) for name in ("LD_PRELOAD", "PYTHONPATH") if name in env}
        told = [f"{name}={value}" for name, value in late.items()]
        apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc")
        self.process = subprocess.Popen(
            [*groups.entering([group]), *apart, "sh", "-c", script, "sh", "env", *told, *words],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its process, as the host numbers it."""
        outer = self.process.pid
        (inner,) = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        return int(inner)

    def found(self) -> FoundJob:
        """What discovery makes of it."""
        process = Scanner().process(self.pid)
        assert process is not None
        (job,) = find(Snapshot("node1", (process,)), Rules())
        return job

    def is_read_only(self) -> dict[str, bool]:
        """Of each of its mounts, by where it is."""
        lines = Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()
        return {(words := line.split())[4]: "ro" in words[5].split(",") for line in lines}

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def node(tmp_path: Path, cgroup2: Path) -> Iterator[KubernetesNode]:
    with closing(KubernetesNode(tmp_path, cgroup2)) as made:
        yield made


def environment() -> dict[str, str]:
    """Of the example's pod, with what torchrun adds."""
    (pod,) = manifests.load(manifests.TOP / "example/job-rdma.yaml")
    given = device_interface.pod_environment(pod, UID)
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "RANK": "0", "WORLD_SIZE": "2", **given}


def test_queue_pairs_of_a_pod_follow_the_plan(node: KubernetesNode, odd: Path) -> None:
    device = node.devices()["hostcc.dev/job=rdma"]
    plan = PlanRegion.create(node.agent / "plan", jobs=1, stale_s=60.0)
    with Semaphores.create([("link", Settings())], node.agent / "pcie") as semaphores:
        plan.publish([
            RdmaJob(JOB, CLASS, (("198.18.0.1", (PORT,)),), level=1, gates=(("", 0),))
        ])  # fmt: skip
        own = {**environment(), "LD_LIBRARY_PATH": "/opt/job"}
        with closing(
            PodContainer(node, odd.parent, [device], own, ["/opt/job/odd", "errno"])
        ) as pod:
            assert pod.says() == "connected"
            job = pod.found()
            whose = dict.fromkeys(job.groups, job.id)
            assert job.id == JOB == own["HOSTCC_JOB"]

            pid = pod.pid
            assert Path(f"/proc/{pid}/status").read_text().split("NSpid:")[1].split()[1] == "1"
            maps = Path(f"/proc/{pid}/maps").read_text()
            assert str(node.library / "verbs/libhostcc-rdma.so") in maps
            pod.go()
            assert pod.says() == "good"
            # Through the socket, on a mount that is read-only.
            assert semaphores.states()[0].pids == (1,)
            counts = node.shm / "jobs/qp"
            (sender,) = Senders(counts, lambda: Owners(whose)).read()
            assert (sender.job, sender.pid) == (JOB, pid)
            ((pair,),) = (one.qps for one in read_counts(counts))
            assert (pair.port, pair.traffic_class, pair.bytes) == (PORT, CLASS, POSTS * SIZE)

            mounts = pod.is_read_only()
            wanted = {one.container_path: "ro" in one.options for one in device.mounts}
            assert {path: mounts[path] for path in wanted} == wanted
            assert wanted[str(node.library / "verbs" / NCCL_ENV.target.name)]
    plan.close()


def test_a_pod_sees_the_next_agents_files(node: KubernetesNode, odd: Path) -> None:
    """The container is older than this agent's plan, and the last one's was another file."""
    PlanRegion.create(node.agent / "plan", jobs=1, stale_s=60.0).publish([])
    device = node.devices()["hostcc.dev/job=rdma"]
    own = {**environment(), "LD_LIBRARY_PATH": "/opt/job"}
    with closing(PodContainer(node, odd.parent, [device], own, ["/opt/job/odd", "errno"])) as pod:
        assert pod.says() == "connected"
        assert not list((node.shm / "jobs").iterdir())
        assert node.start().returncode == 0  # an update of the agent
        plan = PlanRegion.create(node.agent / "plan", jobs=1, stale_s=60.0)
        plan.publish([RdmaJob(JOB, CLASS, (("198.18.0.1", (PORT,)),))])
        until(lambda: len(list((node.shm / "jobs").iterdir())) == 2, "counters and bins")
        plan.close()


def test_steps_of_a_pod_are_marks(node: KubernetesNode, tmp_path: Path) -> None:
    python = str(Path(sys.executable).resolve())
    empty = tmp_path / "image"
    empty.mkdir()
    receiver = MarkReceiver(str(node.agent / "marks.sock"), lambda _: JOB)
    device = node.devices()["hostcc.dev/job=steps"]
    try:
        with closing(
            PodContainer(node, empty, [device], environment(), [python, "-c", MARKING])
        ) as pod:
            assert pod.says() == "marked"
            receiver.admit(receiver.take())
            receiver.poll()
            assert {pid: len(times) for pid, times in receiver.times(JOB).items()} == {pod.pid: 1}
    finally:
        receiver.close()
        receiver.close_socket()


def test_a_folder_of_somebody_elses_is_refused(node: KubernetesNode) -> None:
    """Who has made it first could exchange what the agent puts there."""
    os.chown(node.shm, 65534, 65534)
    done = node.start()
    assert (done.returncode, done.stderr) == (1, f"{node.shm}: expected root as its owner\n")
