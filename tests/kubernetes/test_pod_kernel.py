"""The agent in a container made of the DaemonSet manages a job in a pod's namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hostcc.lab import netns
from tests import groups
from tests.kubernetes import manifests
from tests.kubernetes.container import Container, held, rights
from tests.real import HOSTCC, TALKER

pytestmark = pytest.mark.kernel

UID = "0a1b2c3d-1111-2222-3333-444455556666"
JOB = "k8s:train-0.train:29500"


class Pod:
    """A training job's process in PID, mount, network and cgroup namespaces of its own."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        slice_ = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
        self.group = root / "kubepods.slice/kubepods-burstable.slice" / slice_
        self.inner = self.group / "cri-containerd-0123456789ab.scope"
        self.inner.mkdir(parents=True)
        netns.create([name])
        spec = manifests.load(manifests.TOP / "example/job.yaml")[0]
        environ = {"PATH": os.environ["PATH"], "RANK": "0", "WORLD_SIZE": "2"}
        for one in spec["spec"]["containers"][0]["env"]:
            environ[one["name"]] = one.get("value") or self._downward(spec, one["valueFrom"])
        apart = (
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--mount-proc",
            "--cgroup",
        )
        self.process = netns.spawn(
            [*apart, "--ipc", "--cgroup", sys.executable, "-c", TALKER, "6000"],
            namespace=name, cgroup=self.inner, env=environ,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._line() == "up"

    @staticmethod
    def _downward(spec: Any, source: Any) -> str:
        path = source["fieldRef"]["fieldPath"]
        assert path == "metadata.annotations['hostcc/weight']"
        return str(spec["metadata"]["annotations"]["hostcc/weight"])

    def controls(self) -> tuple[str, ...]:
        """The congestion control of each end of its connection."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"ca\n")
        self.process.stdin.flush()
        return tuple(self._line().split())

    def managed(self) -> bool:
        """Whether both ends of its connection are under hostcc's control."""
        return all(one.startswith("hcc_") for one in self.controls())

    def inside(self) -> int:
        """Its process inside of the namespaces."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def where(self) -> str:
        """Its cgroup of version 2, as the host names it."""
        text = Path(f"/proc/{self.process.pid}/cgroup").read_text()
        return next(line[3:] for line in text.splitlines() if line.startswith("0::"))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        netns.remove([self.name])

    def _line(self) -> str:
        assert self.process.stdout is not None
        return bytes(self.process.stdout.readline()).decode().strip()


class KubernetesNode:
    """A node with one pod; agents come and go."""

    def __init__(self, folder: Path, cgroup2: Path) -> None:
        self.name = f"hcct-{uuid.uuid4().hex[:6]}"
        self.folder = folder
        self.root = cgroup2 / self.name
        self.own = self.root / "agent"
        self.own.mkdir(parents=True)
        netns.create([self.name])
        self.pod = Pod(f"{self.name}-p", self.root)
        self.containers: list[Container] = []

    def start(self, *components: str, **host: Path) -> Container:
        """A container of the DaemonSet, which only sees this node's part of the machine.

        `host`: where volumes are that have another path here.
        """
        objects = manifests.render(manifests.TOP / "base", *components)
        daemon_set = manifests.find(objects, "DaemonSet")
        pod = daemon_set["spec"]["template"]["spec"]
        maps = {
            one["metadata"]["name"]: dict(one["data"])
            for one in objects
            if one["kind"] == "ConfigMap"
        }
        data = maps["hostcc"]
        for old, new in (
            ('cgroup_root = "auto"', f'cgroup_root = "{self.root}"\ninstance = "{self.name}"'),
            ("[discover]\n", "[discover]\nevery_s = 1\n"),
        ):
            assert data["hostcc.toml"].count(old) == 1
            data["hostcc.toml"] = data["hostcc.toml"].replace(old, new)
        data["hostcc.toml"] += "\n[users]\nmax_weight = 4.0\n"
        container = Container(
            pod,
            manifests.agent_of(daemon_set),
            maps,
            {
                "/run/hostcc": self.folder / "run",
                **{
                    manifests.named(pod["volumes"], name)["hostPath"]["path"]: path
                    for name, path in host.items()
                },
            },
            self.folder / "container",
            self.name,
            self.own,
        )
        self.containers.append(container)
        return container

    def jobs(self) -> dict[str, Any]:
        """What the agent says, asked from outside of the container."""
        done = subprocess.run(
            [*HOSTCC, "jobs", "--json", "--socket", str(self.folder / "run/control.sock")],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        rows = json.loads(done.stdout)["jobs"] if done.returncode == 0 else []
        return {row["name"]: row for row in rows}

    def weight(self, job: str) -> float | None:
        """Of a job; None: the agent does not say so now."""
        parameters = self.jobs().get(job, {}).get("parameters", {})
        found: float | None = parameters.get("weight")
        return found

    def probe(self, wanted: dict[str, Any], ports: dict[str, int]) -> int:
        """The status of a probe, asked as the kubelet does; 0: nobody listens."""
        url = f"http://127.0.0.1:{ports[wanted['port']]}{wanted['path']}"
        return netns.inside(self.name, partial(_status, url))

    def close(self) -> None:
        for container in self.containers:
            container.close()
        self.pod.close()
        netns.remove([self.name])
        groups.remove(self.root)


def namespace(pid: int, kind: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


@pytest.fixture
def node(tmp_path: Path, cgroup2: Path) -> Iterator[KubernetesNode]:
    with closing(KubernetesNode(tmp_path, cgroup2)) as made:
        yield made


def test_the_agent_manages_a_job_in_a_pod_and_an_update_keeps_it(node: KubernetesNode) -> None:
    spec = manifests.agent_of(manifests.find(manifests.render(manifests.TOP / "base"), "DaemonSet"))
    ports = {one["name"]: one["containerPort"] for one in spec["ports"]}
    plain, group = node.pod.controls(), node.pod.where()
    agent = node.start()
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        wanted = spec[kind]["httpGet"]
        agent.until(lambda wanted=wanted: node.probe(wanted, ports) == 200, kind)

    # Exactly the rights of the specification, as far as this machine has them.
    assert agent.granted() == rights(spec["securityContext"]) & held()
    kinds = ("pid", "mnt", "net", "ipc", "cgroup")
    mine, its, pods = (
        {kind: namespace(pid, kind) for kind in kinds}
        for pid in (os.getpid(), agent.process.pid, node.pod.inside())
    )
    assert {kind for kind in kinds if its[kind] != mine[kind]} == {"mnt", "net", "ipc"}
    assert {kind for kind in kinds if its[kind] != pods[kind]} == {*kinds}

    agent.until(lambda: JOB in node.jobs(), JOB)
    agent.until(node.pod.managed, "the pod's connection to be managed")
    # By the annotation and the downward API.
    agent.until(lambda: node.weight(JOB) == 2.0, "the weight of 2")
    assert node.pod.where() == group

    # An update: while there is no agent, the pod's connection is as before.
    assert agent.stop() == 0, agent.log()
    assert node.pod.controls() == plain
    agent = node.start()
    agent.until(lambda: JOB in node.jobs(), JOB)
    agent.until(node.pod.managed, "the pod's connection to be managed again")
    assert agent.stop() == 0, agent.log()
    assert node.pod.controls() == plain
    assert not node.jobs()


def test_the_agent_shares_two_folders_with_jobs(node: KubernetesNode, tmp_path: Path) -> None:
    """By the component for RDMA, whose init container has made them; absent hardware: a device."""
    shared, devices = tmp_path / "shm", tmp_path / "infiniband"
    for made in (shared / "agent", shared / "jobs", devices):
        made.mkdir(parents=True)
    agent = node.start("rdma", shm=shared, infiniband=devices)
    marks = shared / "agent/marks.sock"
    agent.until(marks.is_socket, "the socket for marks")
    agent.until(lambda: JOB in node.jobs(), JOB)
    assert agent.stop() == 0, agent.log()
    assert not marks.exists()
