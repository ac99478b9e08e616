"""Root queues of this network namespace's devices: read by netlink, made by `tc`.

They are made by `tc`: pyroute2 lacks sch_ets, and own code would have to encode HTB's rates and
u32 filters as well.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostcc.errors import HostccError, one_line
from hostcc.paths.egress_queues import DEFAULT_KINDS, MAJOR, undo
from hostcc.system.netlink import TC_KIND, TC_MESSAGE, attributes, dump

SYSFS = Path("/sys/class/net")
TC_TIMEOUT_S = 10.0
"""For one run of tc; one that is ended leaves queues half made, as a line that fails does."""
_RTM_GETQDISC = 38
_ROOT = 0xFFFFFFFF  # TC_H_ROOT


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
    """Read the root qdisc of a device; None: there is no such device.  Raises HostccError."""
    index = _index(device)
    if not index:
        return None
    if shutil.which("tc") is None:
        raise HostccError("tc: not found; install the package iproute2")
    try:
        found = [one for one in _roots() if one[0] == index]
    except OSError as error:
        raise HostccError(f"qdisc of {device}: {error.strerror or error}") from None
    _, kind, handle = found[0] if found else (index, "noqueue", 0)
    return Root(kind, f"{handle >> 16:x}:")


def ours() -> list[str]:
    """List devices whose root queue an agent made; none where the kernel does not answer."""
    try:
        made = [index for index, _, handle in _roots() if handle == MAJOR << 16]
        return [socket.if_indextoname(index) for index in made]
    except OSError:
        return []


def _roots() -> list[tuple[int, str, int]]:
    # Index of the device, kind and handle of each root qdisc of this namespace.
    found = []
    for row in dump(_RTM_GETQDISC, TC_MESSAGE.pack(0, 0, 0, 0, 0)):
        _, index, handle, parent, _ = TC_MESSAGE.unpack_from(row)
        if parent == _ROOT:
            kind = attributes(row[TC_MESSAGE.size :]).get(TC_KIND, b"")
            found.append((index, kind.rstrip(b"\0").decode(errors="replace"), handle))
    return found


def speed_mbit(device: str) -> float:
    """Read a device's speed, Mbit/s; 0: it does not say."""
    at = SYSFS / device
    try:
        if int((at / "ifindex").read_text()) != _index(device):  # sysfs of another namespace
            return 0.0
        return max(0.0, float((at / "speed").read_text()))
    except (OSError, ValueError):
        return 0.0


def apply(lines: Sequence[str]) -> None:
    """Run lines of `tc -batch`.  Raises HostccError with tc's words."""
    try:
        done = subprocess.run(
            ["tc", "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True,
            check=False, timeout=TC_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostccError(f"tc: {one_line(str(error))}") from None
    if done.returncode:
        raise HostccError(f"tc: {one_line(' '.join(done.stderr.split())) or 'it failed'}")


def remove(device: str) -> str:
    """Give a device the kernel's default queue again, if its queue is ours; returns why not."""
    try:
        found = root(device)
        if found is not None and found.ours:
            apply(undo(device))
    except HostccError as error:
        return str(error)
    return ""


def _index(device: str) -> int:
    # 0: this namespace has no such device.
    try:
        return socket.if_nametoindex(device)
    except OSError:
        return 0
