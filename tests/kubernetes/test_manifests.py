"""What packaging/kubernetes makes is valid for three versions, and says what the agent needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import kubernetes_validate
import pytest
import yaml

from hostcc.config.load import load
from hostcc.coord.keys import files
from tests.conftest import NOT_HERE
from tests.kubernetes import manifests
from tests.kubernetes.manifests import TOP, Object

pytestmark = pytest.mark.unit

VERSIONS = ("1.30", "1.33", "1.37")
"""The first has the field appArmorProfile."""
FOLDERS = ("base", "example")
JOBS = ("job.yaml", "job-rdma.yaml")
ELSEWHERE = {"PodMonitor"}
"""Kinds of operators, of which Kubernetes has no schema."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_valid(folder: str, version: str) -> None:
    objects = manifests.render(TOP / folder)
    pods = [one for name in JOBS for one in manifests.load(TOP / "example" / name)]
    for one in [*objects, *pods]:
        if one["kind"] not in ELSEWHERE:
            kubernetes_validate.validate(one, version, strict=True)


def test_the_schemas_refuse_what_is_wrong() -> None:
    daemon_set = manifests.find(manifests.render(TOP / "base"), "DaemonSet")
    manifests.agent_of(daemon_set)["livenessprobe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenessprobe"):
        kubernetes_validate.validate(daemon_set, VERSIONS[0], strict=True)


@pytest.mark.skipif(not shutil.which("kubectl"), reason=f"{NOT_HERE} kubectl")
@pytest.mark.parametrize("folder", FOLDERS)
def test_kustomize_makes_the_same(folder: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", TOP / folder],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    # Generated names end with a digest of the contents.
    text = re.sub(r"\b(hostcc(?:-members|-rdma)?)-[a-z0-9]{10}\b", r"\1", done.stdout)
    theirs = [one for one in yaml.safe_load_all(text) if one]
    assert by_name(theirs) == by_name(manifests.render(TOP / folder))


def by_name(objects: list[Object]) -> dict[str, Any]:
    """In an order that does not depend on who made them."""
    return {f"{one['kind']} {one['metadata']['name']}": plain(one) for one in objects}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(one) for key, one in sorted(value.items())}
    if isinstance(value, list):
        made = [plain(one) for one in value]
        # The order of mounts, containers and volumes is kustomize's own.
        return sorted(made, key=json.dumps) if made and isinstance(made[0], dict) else made
    # Base 64 in lines is the same.
    return value.replace("\n", "") if isinstance(value, str) and len(value) > 70 else value


def test_no_more_privileges_than_the_unit() -> None:
    unit = (TOP.parent / "hostcc.service").read_text()
    listed = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    assert listed is not None
    units = {name.removeprefix("CAP_") for name in listed[1].split()}
    for folder in FOLDERS:
        pod = manifests.find(manifests.render(TOP / folder), "DaemonSet")["spec"]["template"][
            "spec"
        ]
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            context = container["securityContext"]
            assert not context.get("privileged")
            assert context["readOnlyRootFilesystem"]
            assert context["capabilities"]["drop"] == ["ALL"]
            added = set(context["capabilities"].get("add", ()))
            assert added <= units if container["name"] == "agent" else not added
        paths = {one["hostPath"]["path"] for one in pod["volumes"] if "hostPath" in one}
        assert not paths & {"/", "/etc", "/var/lib/kubelet", "/proc", "/var/run", "/run"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_probes_and_the_monitor_ask_where_the_agent_listens(folder: str) -> None:
    config = load(TOP / folder / "hostcc.toml")
    agent = manifests.agent_of(manifests.find(manifests.render(TOP / folder), "DaemonSet"))
    ports = {one["name"]: one["containerPort"] for one in agent["ports"]}
    assert config.agent.metrics_listen == f"0.0.0.0:{ports['metrics']}"
    asked = {kind: agent[kind]["httpGet"] for kind in agent if kind.endswith("Probe")}
    assert asked == {
        "startupProbe": {"path": "/healthz", "port": "metrics"},
        "livenessProbe": {"path": "/healthz", "port": "metrics"},
        "readinessProbe": {"path": "/readyz", "port": "metrics"},
    }
    policy = manifests.find(manifests.render(TOP / folder), "NetworkPolicy")["spec"]
    allowed = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert allowed == {ports["metrics"], 7471}


def test_the_monitor() -> None:
    (monitor,) = manifests.load(TOP / "components/monitoring/podmonitor.yaml")
    daemon_set = manifests.find(manifests.render(TOP / "base"), "DaemonSet")
    labels = daemon_set["spec"]["template"]["metadata"]["labels"]
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")


def test_the_update_replaces_one_agent_at_a_time() -> None:
    spec = manifests.find(manifests.render(TOP / "base"), "DaemonSet")["spec"]
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}


def test_the_example_lets_its_job_have_its_weight() -> None:
    (job,) = manifests.load(TOP / "example/job.yaml")
    asked = float(job["metadata"]["annotations"]["hostcc/weight"])
    assert 1.0 < asked <= load(TOP / "example/hostcc.toml").users.max_weight


def test_the_example_of_members_is_accepted() -> None:
    for path in sorted((TOP / "example/members").iterdir()):
        files.read_public(path)
