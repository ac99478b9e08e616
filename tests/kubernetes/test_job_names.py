"""What a pod with RDMA says is what hostcc calls it: its job as discovery does, and devices."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hostcc.measure.discover.find import find
from hostcc.system.processes import Pods, Process, Rules, Snapshot
from tests.kubernetes import manifests
from tests.kubernetes.device_interface import pod_environment
from tests.kubernetes.test_page import blocks
from tests.verbs.test_cdi import devices

pytestmark = pytest.mark.unit

UID = "0a1b2c3d-1111-2222-3333-444455556666"
GROUP = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-01.scope"
EXAMPLE = manifests.load(manifests.TOP / "example/job-rdma.yaml")[0]
(SINGLE,) = (
    pod
    for text in blocks("yaml")
    if (pod := yaml.safe_load(text))["metadata"]["name"] == "train-single"
)


@pytest.mark.parametrize(
    ("pod", "rules", "name"),
    [
        (EXAMPLE, Rules(), "k8s:train-rdma-0.train:29500"),
        (SINGLE, Rules(kubernetes=Pods.ALL), f"k8s:pod:{UID}"),
        (SINGLE, Rules(kubernetes=Pods.ALL, environ=False), f"k8s:pod:{UID}"),
    ],
)
def test_the_name_in_the_pod_is_that_of_discovery(
    pod: dict[str, Any], rules: Rules, name: str
) -> None:
    environ = pod_environment(pod, UID)
    process = Process(17, group=GROUP, environ={**environ, "RANK": "0", "WORLD_SIZE": "1"})
    (job,) = find(Snapshot("node1", (process,)), rules)
    assert job.id == environ["HOSTCC_JOB"] == name


@pytest.mark.parametrize("pod", [EXAMPLE, SINGLE])
def test_a_pod_asks_for_devices_that_exist(pod: dict[str, Any]) -> None:
    (container,) = pod["spec"]["containers"]
    key = f"cdi-devices.noderesource.dev/container.{container['name']}"
    asked = yaml.safe_load(pod["metadata"]["annotations"][key])
    assert asked
    assert set(asked) <= set(devices())
