"""The Container Device Interface, version 0.6.0, as a container runtime reads and applies it.

Names and fields are those that its specification allows, of what is used here; hooks and device
nodes are not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
Kind = Annotated[
    str,
    # The vendor is a DNS subdomain, the class has at most 63 characters.
    Meta(
        pattern=rf"^(?=[^/]{{1,253}}/)(?=[a-z]){_LABEL}(\.{_LABEL})*"
        r"/[A-Za-z]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z"
    ),
]
DeviceName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?\Z")]
Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*=[^\x00]*\Z")]
AbsolutePath = Annotated[str, Meta(pattern=r"^/[^\x00]*\Z")]
Option = Literal["ro", "rw", "nosuid", "nodev", "noexec", "bind"]


class Mount(Struct, forbid_unknown_fields=True, rename="camel"):
    """A mount; without the option `bind` runtimes take its type from elsewhere."""

    host_path: AbsolutePath
    container_path: AbsolutePath
    options: tuple[Option, ...] = ()


class Edits(Struct, forbid_unknown_fields=True, rename="camel"):
    """What a device adds to a container."""

    env: tuple[Variable, ...] = ()
    mounts: tuple[Mount, ...] = ()


class Device(Struct, forbid_unknown_fields=True, rename="camel"):
    """One device; its edits are required, and must not be empty."""

    name: DeviceName
    container_edits: Edits


class Specification(Struct, forbid_unknown_fields=True, rename="camel"):
    """A file in /etc/cdi."""

    cdi_version: Literal["0.6.0"]
    kind: Kind
    devices: Annotated[tuple[Device, ...], Meta(min_length=1)]


def read(text: str | bytes) -> dict[str, Edits]:
    """Fully qualified name -> edits.  Raises msgspec.ValidationError."""
    return _checked(msgspec.json.decode(text, type=Specification))


def convert(value: Mapping[str, Any]) -> dict[str, Edits]:
    """The same of a specification that is not text."""
    return read(msgspec.json.encode(value))


def _checked(found: Specification) -> dict[str, Edits]:
    devices = {f"{found.kind}={one.name}": one.container_edits for one in found.devices}
    if len(devices) < len(found.devices):
        raise msgspec.ValidationError("a device's name is used twice")
    for name, edits in devices.items():
        paths = [one.container_path for one in edits.mounts]
        if not (edits.env or edits.mounts):
            raise msgspec.ValidationError(f"{name} edits nothing")
        if len(set(paths)) < len(paths) or not all("bind" in one.options for one in edits.mounts):
            raise msgspec.ValidationError(f"{name} has a mount twice, or one that binds nothing")
    return devices


def environment(own: Mapping[str, str], devices: Iterable[Edits]) -> dict[str, str]:
    """A container's variables: those of devices replace its own."""
    added = [one.partition("=") for device in devices for one in device.env]
    return {**own, **{name: value for name, _, value in added}}


def mount_lines(devices: Iterable[Edits]) -> list[str]:
    """Shell commands that make all mounts, inside of the container's new root."""
    mounts = {one.container_path: one for device in devices for one in device.mounts}
    lines = []
    for path, mount in sorted(mounts.items(), key=lambda one: one[0].count("/")):
        source, at = shlex.quote(mount.host_path), shlex.quote(path.lstrip("/"))
        options = ",".join(one for one in mount.options if one not in {"bind", "rw"})
        above = shlex.quote(str(Path(path.lstrip("/")).parent))
        made = f"mkdir -p {at}" if Path(mount.host_path).is_dir() else f"touch {at}"
        lines += [
            f"mkdir -p {above} && {made}",
            f"mount --bind {source} {at}",
            f"mount -o remount,bind,{options} {at}",
        ]
    return lines


def pod_environment(pod: Mapping[str, Any], uid: str) -> dict[str, str]:
    """Variables of a pod's first container, as Kubernetes sets them."""
    found: dict[str, str] = {}
    fields = {"metadata.uid": uid, **_annotations(pod)}
    for one in pod["spec"]["containers"][0]["env"]:
        text = one.get("value")
        if text is None:
            text = fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        # Variables that are set before it.
        found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda name: found.get(name[1], name[0]), text)
    return found


def _annotations(pod: Mapping[str, Any]) -> dict[str, str]:
    given = pod["metadata"].get("annotations", {})
    return {f"metadata.annotations['{name}']": str(text) for name, text in given.items()}
