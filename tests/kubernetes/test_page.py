"""YAML and shell of docs/kubernetes.md and of the manifests are what they are taken for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests import patience
from tests.conftest import NOT_HERE
from tests.kubernetes import manifests
from tests.kubernetes.test_manifests import VERSIONS

pytestmark = pytest.mark.unit

TOP = manifests.TOP.parents[1]
PAGE = (TOP / "docs/kubernetes.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("version", VERSIONS)
def test_yaml(version: str) -> None:
    assert blocks("yaml")
    for text in blocks("yaml"):
        kubernetes_validate.validate(yaml.safe_load(text), version, strict=True)


@pytest.mark.skipif(not shutil.which("kubectl"), reason=f"{NOT_HERE} kubectl")
def test_shell_that_needs_no_cluster() -> None:
    assert blocks("sh")
    for text in blocks("sh"):
        done = subprocess.run(
            ["sh", "-ec", text], cwd=TOP, capture_output=True, text=True, check=True, timeout=120
        )
        assert "kind: DaemonSet" in done.stdout


def test_shell_for_a_cluster_names_what_there_is() -> None:
    objects = manifests.render(manifests.TOP / "example")
    pod = manifests.find(objects, "DaemonSet")["spec"]["template"]["spec"]
    lines = [line for text in blocks("console") for line in text.splitlines()]
    assert len(lines) == 6
    for line in lines:
        prompt, command, *words = line.split()
        assert (prompt, command) == ("$", "kubectl")
        if "-k" in words:
            assert (TOP / words[words.index("-k") + 1] / "kustomization.yaml").exists()
        else:
            assert words[:2] == ["-n", manifests.find(objects, "Namespace")["metadata"]["name"]]
        if "-c" in words:
            assert words[words.index("-c") + 1] in {one["name"] for one in pod["containers"]}


def test_every_capability_is_explained() -> None:
    agent = manifests.agent_of(
        manifests.find(manifests.render(manifests.TOP / "base"), "DaemonSet")
    )
    explained = re.findall(r"^\| `([A-Z_]+)` \|", PAGE, re.MULTILINE)
    assert explained == agent["securityContext"]["capabilities"]["add"]


def test_the_members_of_the_secret_become_the_allow_list(tmp_path: Path) -> None:
    objects = manifests.render(manifests.TOP / "example")
    pod = manifests.find(objects, "DaemonSet")["spec"]["template"]["spec"]
    copier = next(one for one in pod["initContainers"] if one["name"] == "members")
    members, allowed = tmp_path / "members", tmp_path / "allowed"
    members.mkdir()
    allowed.mkdir()
    (tmp_path / "data").mkdir()
    shell, options, script = copier["command"]
    for old, new in (("/members", members), ("/etc/hostcc/keys/allowed", allowed)):
        assert old in script
        script = script.replace(old, str(new))

    def publish(**texts: str) -> None:
        """As a Secret's volume: links to files elsewhere."""
        for path in members.iterdir():
            path.unlink()
        for name, text in texts.items():
            (tmp_path / "data" / name).write_text(text)
            (members / f"{name}.pub").symlink_to(tmp_path / "data" / name)

    def there() -> dict[str, str]:
        found = {}
        for path in allowed.glob("*.pub"):
            assert not path.is_symlink()
            with suppress(FileNotFoundError):  # removed meanwhile
                found[path.stem] = path.read_text()
        return found

    (allowed / "me.pub").write_text("mine")
    publish(one="1", two="2")
    script = script.replace("sleep 5", "sleep 0.05")
    process = subprocess.Popen(
        [shell, options, script], env={"PATH": os.environ["PATH"], "NODE_NAME": "me"}
    )
    try:
        patience.until(lambda: there() == {"me": "mine", "one": "1", "two": "2"}, "the members")
        publish(two="3")
        patience.until(lambda: there() == {"me": "mine", "two": "3"}, "the change")
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
