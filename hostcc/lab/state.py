"""What a lab is about to create, on disk before it creates it, so that it can be removed later.

A lab that is killed leaves its record in /run/hostcc-lab; `hostcc lab down` reads it back.
Removing twice, or removing what was never made, is fine.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hostcc.lab import cgroup, netns
from hostcc.lab.errors import LabError
from hostcc.system.cgroups import resolve_root

STATE_DIRECTORY = Path("/run/hostcc-lab")


@dataclass(frozen=True)
class LabState:
    """One lab: who made it, and every name that it uses."""

    id: str
    pid: int
    pid_start: int
    """Start time of the process in clock ticks since boot: tells a reused pid."""
    cgroup: str
    run_dir: str
    namespaces: tuple[str, ...] = ()

    def namespace(self, part: str) -> str:
        """Name of the namespace of a host or switch."""
        return f"hcc-{self.id}-{part}"

    def host_cgroup(self, host: str) -> Path:
        """The group of one host."""
        return Path(self.cgroup) / host

    @property
    def alive(self) -> bool:
        """Whether the process that made it still runs."""
        return _start_time(self.pid) == self.pid_start


def new_state(directory: Path = STATE_DIRECTORY) -> LabState:
    """A fresh identity, not recorded yet."""
    lab_id = secrets.token_hex(3)
    return LabState(
        id=lab_id,
        pid=os.getpid(),
        pid_start=_start_time(os.getpid()),
        cgroup=str(resolve_root("auto") / f"hostcc-lab-{lab_id}"),
        run_dir=str(directory / lab_id),
    )


def record(state: LabState, parts: list[str], directory: Path = STATE_DIRECTORY) -> LabState:
    """Write down everything that is about to be created; returns the completed state."""
    state = replace(state, namespaces=tuple(state.namespace(part) for part in parts))
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        temporary = directory / f".{state.id}.tmp"
        temporary.write_text(json.dumps(asdict(state)))
        temporary.rename(directory / f"{state.id}.json")
        Path(state.run_dir).mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        raise LabError(f"{directory}: {error.strerror}: the lab needs root") from error
    return state


def recorded(directory: Path = STATE_DIRECTORY) -> list[LabState]:
    """Labs that have a record; unreadable records are passed over."""
    found = []
    for path in sorted(directory.glob("*.json")):
        try:
            document = json.loads(path.read_text())
            document["namespaces"] = tuple(document["namespaces"])
            found.append(LabState(**document))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return found


def remove(state: LabState, directory: Path = STATE_DIRECTORY) -> None:
    """Remove processes, cgroups, namespaces, mounts and files of a lab, then its record."""
    cgroup.remove(Path(state.cgroup))
    netns.remove(state.namespaces)
    _unmount(Path(state.run_dir))
    shutil.rmtree(state.run_dir, ignore_errors=True)
    (directory / f"{state.id}.json").unlink(missing_ok=True)


def _unmount(folder: Path) -> None:
    """Take away what is mounted below a folder: a lab's small disks."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if folder in Path(where := line.split()[1]).parents:
            # Lazily: whoever still looks into it must not keep it.
            subprocess.run(["umount", "-l", where], check=False, capture_output=True)


def _start_time(pid: int) -> int:
    """Start of a process in clock ticks since boot; -1 when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    fields = text.rpartition(")")[2].split()
    return -1 if fields[0] == "Z" else int(fields[19])
