"""This host's own egress queues, a class for every level: the tc commands, made and undone.  Pure.

The host's queue is where its own jobs meet first.  Only a device whose root qdisc is the kernel's
default is touched: another one is an administrator's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from hostcc.errors import InputError
from hostcc.model import Change

QUEUES = "egress-queues"
MAJOR = 0xC1C
"""Handle of our root qdisc: c1c:, so that it is known again."""
DEFAULT_KINDS = frozenset({"noqueue", "pfifo_fast", "mq", "fq_codel", "fq"})
MAX_CLASSES = 15
_DEVICE = re.compile(r"[A-Za-z0-9._-]{1,15}\Z")


class Queues(StrEnum):
    """Which classes."""

    HTB = "htb"
    """Shares by weight, each may use what the others leave."""
    PRIO = "prio"
    ETS = "ets"
    """Both: strictly one before the other."""


def commands(kind: Queues, device: str, tos: Sequence[int], rate_mbit: float = 0.0) -> list[str]:
    """Lines for `tc -batch`.  `tos`: the ToS byte of each level, highest level first.

    The last class is for whatever is not marked; HTB needs the device's rate.  Raises InputError.
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
    """Back to the kernel's default."""
    return [f"qdisc del dev {device} root handle {MAJOR:x}:"]


def change(kind: Queues, device: str, found: str, levels: int) -> Change:
    """The change to journal; `found` is the kind of the root qdisc.  Raises InputError."""
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
    """Queues of an agent that is gone, which only their handle tells of."""
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
