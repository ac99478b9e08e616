"""This host's egress queues, a class for each level: tc commands that make and undo them.  Pure.

The host's queue is the first in which its own jobs meet.  Only a device whose root qdisc is the
kernel's default is changed: another one is an administrator's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from hostcc.errors import InputError
from hostcc.model import Change

QUEUES = "egress-queues"
MAJOR = 0xC1C
"""Handle of our root qdisc, c1c:, by which a later agent recognises it."""
DEFAULT_KINDS = frozenset({"noqueue", "pfifo_fast", "mq", "fq_codel", "fq"})
MAX_CLASSES = 15
_DEVICE = re.compile(r"[A-Za-z0-9._-]{1,15}\Z")


class Queues(StrEnum):
    """Queueing disciplines that serve levels."""

    HTB = "htb"
    """Shares by weight; each class may use what the others leave."""
    PRIO = "prio"
    ETS = "ets"
    """Strict priority, like PRIO."""


def commands(kind: Queues, device: str, tos: Sequence[int], rate_mbit: float = 0.0) -> list[str]:
    """Return lines for `tc -batch`.  `tos`: the ToS byte of each level, highest level first.

    The last class is for unmarked packets; HTB needs the device's rate.  Raises InputError.
    """
    if not _DEVICE.match(device):
        raise InputError(f"egress device: expected an interface name, got {device!r:.40}")
    if not 1 <= len(tos) < MAX_CLASSES:
        raise InputError(f"egress levels: expected 1 to {MAX_CLASSES - 1}, got {len(tos)}")
    classes = len(tos) + 1
    root = f"qdisc add dev {device} root handle {MAJOR:x}:"
    if kind is Queues.HTB:
        if rate_mbit <= 0:
            raise InputError(f"egress rate: expected Mbit/s above 0, got {rate_mbit}")
        lines = _htb(root, device, classes, rate_mbit)
    elif kind is Queues.PRIO:
        bands = " ".join([str(classes - 1)] * 16)
        lines = [f"{root} prio bands {classes} priomap {bands}"]
    else:
        bands = " ".join([str(classes - 1)] * 16)
        lines = [f"{root} ets bands {classes} strict {classes} priomap {bands}"]
    for number, value in enumerate(tos, 1):
        to = f"flowid {MAJOR:x}:{number:x}"
        at = f"filter add dev {device} parent {MAJOR:x}:"
        lines.append(f"{at} protocol ip prio 1 u32 match ip dsfield {value:#x} 0xfc {to}")
        lines.append(f"{at} protocol ipv6 prio 2 u32 match ip6 priority {value:#x} 0xfc {to}")
    return lines


def undo(device: str) -> list[str]:
    """Return lines for `tc -batch` that restore the kernel's default."""
    return [f"qdisc del dev {device} root handle {MAJOR:x}:"]


def change(kind: Queues, device: str, found: str, levels: int) -> Change:
    """Make the change to journal; `found`: kind of the present root qdisc.  Raises InputError."""
    if found not in DEFAULT_KINDS:
        raise InputError(f"egress {device}: its root qdisc is {found}, which somebody chose")
    return Change(
        id=f"{QUEUES}:{device}",
        what=QUEUES,
        target=device,
        before=found,
        after={"qdisc": str(kind), "levels": levels},
        why="queues by level in the configuration",
        undo=f"tc qdisc del dev {device} root",
    )


def found(device: str) -> Change:
    """Make the change for queues of an earlier agent, which are known by their handle only."""
    return Change(
        id=f"{QUEUES}:{device}",
        what=QUEUES,
        target=device,
        before="the kernel's default",
        after={"handle": f"{MAJOR:x}:"},
        why="left behind by an earlier agent",
        undo=f"tc qdisc del dev {device} root",
    )


def _htb(root: str, device: str, classes: int, rate_mbit: float) -> list[str]:
    # Class n + 1 may borrow after class n; a guaranteed share keeps the last from starving.
    lines = [f"{root} htb default {classes:x}"]
    lines.append(
        f"class add dev {device} parent {MAJOR:x}: classid {MAJOR:x}:ff htb rate {rate_mbit:g}mbit"
    )
    least = rate_mbit / (4 * classes)
    return lines + [
        f"class add dev {device} parent {MAJOR:x}:ff classid {MAJOR:x}:{number:x} htb "
        f"rate {least:g}mbit ceil {rate_mbit:g}mbit prio {min(number - 1, 7)}"
        for number in range(1, classes + 1)
    ]
