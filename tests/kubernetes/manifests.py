"""Reads packaging/kubernetes as kustomize does, as far as these files need it.

`kubectl kustomize` is compared with it where there is one (test_manifests).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

TOP = Path(__file__).parents[2] / "packaging/kubernetes"
Object = dict[str, Any]
MERGED_BY = {"volumeMounts": "mountPath"}
"""Lists of objects are merged by name, but for these."""
CLUSTER_WIDE = {"Namespace"}


def load(path: Path) -> list[Object]:
    """The documents of a file."""
    return [one for one in yaml.safe_load_all(path.read_text()) if one is not None]


def render(folder: Path, *components: str) -> list[Object]:
    """Everything that a folder's kustomization makes, with more components."""
    objects = _apply([], folder)
    for name in components:
        objects = _apply(objects, TOP / "components" / name)
    return objects


def find(objects: Iterable[Object], kind: str) -> Object:
    """The only object of a kind."""
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def named(those: Iterable[Object], name: str) -> Object:
    """The container or object of that name."""
    (found,) = (one for one in those if one.get("metadata", one)["name"] == name)
    return found


def agent_of(daemon_set: Object) -> Object:
    """The agent's container."""
    pod = daemon_set["spec"]["template"]["spec"]
    container: Object = next(one for one in pod["containers"] if one["name"] == "agent")
    return container


def _apply(objects: list[Object], folder: Path) -> list[Object]:
    (wanted,) = load(folder / "kustomization.yaml")
    for name in wanted.pop("resources", ()):
        path = folder / name
        objects += _apply([], path) if path.is_dir() else load(path)
    for kind, key in (("ConfigMap", "configMapGenerator"), ("Secret", "secretGenerator")):
        for one in wanted.pop(key, ()):
            objects = _generate(objects, folder, kind, one)
    for name in wanted.pop("components", ()):
        objects = _apply(objects, folder / name)
    for patch in wanted.pop("patches", ()):
        (change,) = load(folder / patch["path"])
        target = find(objects, change["kind"])
        target.update(merge(target, change))
    images = {one["name"]: f"{one['newName']}:{one['newTag']}" for one in wanted.pop("images", ())}
    namespace = wanted.pop("namespace", None)
    for one in objects:
        _rename_images(one, images)
        if namespace and one["kind"] not in CLUSTER_WIDE:
            one["metadata"]["namespace"] = namespace
    assert wanted.pop("apiVersion").startswith("kustomize.config.k8s.io/v1")
    assert wanted.pop("kind") in {"Kustomization", "Component"}
    assert not wanted, f"{folder}: {sorted(wanted)} are not known here"
    return objects


def _generate(objects: list[Object], folder: Path, kind: str, wanted: Object) -> list[Object]:
    data = {Path(name).name: (folder / name).read_text() for name in wanted.pop("files")}
    if kind == "Secret":
        data = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    made: Object = {
        "apiVersion": "v1", "kind": kind, "metadata": {"name": wanted.pop("name")}, "data": data,
    }  # fmt: skip
    if kind == "Secret":
        made["type"] = "Opaque"
    if wanted.pop("behavior", "create") == "replace":
        name = made["metadata"]["name"]
        objects = [one for one in objects if (one["kind"], one["metadata"]["name"]) != (kind, name)]
    assert not wanted
    return [*objects, made]


def merge(old: Any, new: Any, key: str = "") -> Any:
    """A strategic merge: objects by key, lists of objects by name, everything else replaced."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {
            **old,
            **{name: merge(old.get(name), value, name) for name, value in new.items()},
        }
    if isinstance(old, list) and isinstance(new, list) and all(isinstance(o, dict) for o in new):
        by = MERGED_BY.get(key, "name")
        changes = {one[by]: one for one in new}
        kept = [merge(one, changes.pop(one[by], {})) for one in old]
        return [*kept, *changes.values()]
    return new


def _rename_images(value: Any, images: dict[str, str]) -> None:
    if isinstance(value, dict):
        name = str(value.get("image", "")).partition(":")[0]
        if name in images:
            value["image"] = images[name]
        for below in value.values():
            _rename_images(below, images)
    elif isinstance(value, list):
        for below in value:
            _rename_images(below, images)
