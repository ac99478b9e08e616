"""Makes the specification by which container runtimes let jobs in containers use hostcc.  Pure.

It is one of the Container Device Interface (CDI), version 0.6.0.  A container that asks for a
device gets its variables and mounts, at the same paths as on the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from hostcc.errors import InputError

VERSION, KIND = "0.6.0", "hostcc.dev/job"
SHIM, NCCL_ENV = "verbs/libhostcc-rdma.so", "verbs/libnccl-env-hostcc.so"
SITE = "injob/site"
HOOK = (f"{SITE}/sitecustomize.py", "injob/torch_hook.py", "mark.py")
"""What counts the steps of PyTorch's optimisers."""
FILES = (SHIM, NCCL_ENV, *HOOK)
"""Of the package, for jobs; below its folder, or wherever they are copied to."""
SHARED = ("/dev/shm", "/run", "/tmp", "/var/run", "/var/tmp")
"""Folders of many programs: no container may get them."""
_READ = ("ro", "nosuid", "nodev", "bind")
_WRITE = ("rw", "nosuid", "nodev", "noexec", "bind")


@dataclass(frozen=True)
class Places:
    """Where things for jobs are on the host."""

    files: PurePath
    """Folder of FILES."""
    plan: PurePath
    counts: PurePath
    """Beginning of a path, in a folder that jobs may write."""
    semaphores: PurePath
    marks: str
    """Path of the socket for marks."""
    private: tuple[PurePath, ...] = ()
    """Paths of the agent's that no job may see."""


def specification(places: Places) -> dict[str, Any]:
    """Return the specification with the devices `rdma`, `marks` and `steps`.

    Files that each agent makes anew are mounted with their folder, so that a container sees the
    next agent's.  Raises InputError for a folder that holds more than what jobs may have.
    """
    counts = places.counts.parent
    read = {
        "rdma.plan": places.plan,
        "pcie.semaphores": places.semaphores,
        "marks.socket": PurePath(places.marks),
    }
    for key, path in {"rdma.counts": places.counts, **read}.items():
        _check(key, path, places.private)
    for key, path in read.items():
        if path.is_relative_to(counts) or counts.is_relative_to(path.parent):
            raise InputError(
                f"{key}: expected a folder apart from that of rdma.counts, which jobs may write, "
                f'got "{path}"'
            )
    rdma = {
        "LD_PRELOAD": str(places.files / SHIM),
        "NCCL_ENV_PLUGIN": str(places.files / NCCL_ENV),
        "HOSTCC_RDMA_PLAN": str(places.plan),
        "HOSTCC_RDMA_COUNTS": str(places.counts),
        "HOSTCC_PCIE_SEMAPHORES": str(places.semaphores),
    }
    socket = {"HOSTCC_MARK_SOCKET": places.marks}
    steps = {**socket, "HOSTCC_MARK": "1", "PYTHONPATH": str(places.files / SITE)}
    seen = [_mount(path.parent, _READ) for path in (places.plan, places.semaphores)]
    marked = _mount(PurePath(places.marks).parent, _READ)
    return {
        "cdiVersion": VERSION,
        "kind": KIND,
        "devices": [
            _device(
                "rdma", rdma, [*_files(places, (SHIM, NCCL_ENV)), *seen, _mount(counts, _WRITE)]
            ),
            _device("marks", socket, [marked]),
            _device("steps", steps, [*_files(places, HOOK), marked]),
        ],
    }


def _check(key: str, path: PurePath, private: Iterable[PurePath]) -> None:
    folder = path.parent
    others = [*map(PurePath, SHARED), *private]
    if not path.is_absolute() or any(one.is_relative_to(folder) for one in others):
        raise InputError(
            f"{key}: expected a path in a folder for jobs alone, because their containers get the "
            f'folder, got "{path}"'
        )


def _files(places: Places, names: Iterable[str]) -> list[dict[str, Any]]:
    return [_mount(places.files / name, _READ) for name in names]


def _mount(path: PurePath, options: Iterable[str]) -> dict[str, Any]:
    return {"hostPath": str(path), "containerPath": str(path), "options": [*options]}


def _device(
    name: str, variables: Mapping[str, str], mounts: Iterable[dict[str, Any]]
) -> dict[str, Any]:
    each = {mount["containerPath"]: mount for mount in mounts}
    env = [f"{key}={value}" for key, value in variables.items()]
    return {"name": name, "containerEdits": {"env": env, "mounts": [*each.values()]}}
