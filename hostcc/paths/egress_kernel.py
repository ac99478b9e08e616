"""Root queues of this network namespace's devices, by tc; speeds by sysfs."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostcc.errors import HostccError, one_line
from hostcc.paths.egress import DEFAULT_KINDS, MAJOR, undo
from hostcc.system.netlink import dump

SYSFS = Path("/sys/class/net")
PATIENCE_S = 1.0
"""For one run of tc, seconds."""
_RTM_GETQDISC = 38
_WHERE = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, device, handle, parent, reference count."""
_ROOT = 0xFFFFFFFF


@dataclass(frozen=True)
class Root:
    """The root qdisc of a device."""

    kind: str
    handle: str

    @property
    def ours(self) -> bool:
        """Whether this agent, or an earlier one, made it."""
        return self.handle == f"{MAJOR:x}:"

    @property
    def default(self) -> bool:
        """Whether nobody chose it: what people make has a handle."""
        return self.handle == "0:" and self.kind in DEFAULT_KINDS


def root(device: str) -> Root | None:
    """What is there now; None: there is no such device.  Raises HostccError."""
    if not _index(device):
        return None
    try:
        listed = json.loads(_tc(["-j", "qdisc", "show", "dev", device]) or "[]")
        found: dict[str, object] = next((one for one in listed if one.get("root")), {})
        return Root(str(found.get("kind", "noqueue")), str(found.get("handle", "0:")))
    except (ValueError, AttributeError, TypeError) as error:
        raise HostccError(f"tc qdisc show dev {device}: expected JSON: {error}") from None


def ours() -> list[str]:
    """Devices whose root queue an agent has made; none where the kernel does not answer."""
    try:
        rows = [_WHERE.unpack_from(one) for one in dump(_RTM_GETQDISC, _WHERE.pack(0, 0, 0, 0, 0))]
        made = [row[1] for row in rows if row[2:4] == (MAJOR << 16, _ROOT)]
        return [socket.if_indextoname(device) for device in made]
    except OSError:
        return []


def speed_mbit(device: str) -> float:
    """What the device says; 0: it does not."""
    at = SYSFS / device
    try:
        if int((at / "ifindex").read_text()) != _index(device):  # sysfs of another namespace
            return 0.0
        return max(0.0, float((at / "speed").read_text()))
    except (OSError, ValueError):
        return 0.0


def apply(lines: Sequence[str]) -> None:
    """Run lines of `tc -batch`.  Raises HostccError with tc's words."""
    _tc(["-batch", "-"], "\n".join(lines) + "\n")


def remove(device: str) -> str:
    """Back to the kernel's default, if the queues are ours; why not, empty: it is."""
    try:
        found = root(device)
        if found is not None and found.ours:
            apply(undo(device))
    except HostccError as error:
        return str(error)
    return ""


def _index(device: str) -> int:
    """0: this namespace has no such device."""
    try:
        return socket.if_nametoindex(device)
    except OSError:
        return 0


def _tc(words: Sequence[str], text: str = "") -> str:
    try:
        done = subprocess.run(
            ["tc", *words],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostccError(f"tc: {one_line(str(error))}") from None
    if done.returncode:
        raise HostccError(f"tc: {one_line(' '.join(done.stderr.split())) or 'it failed'}")
    return done.stdout
