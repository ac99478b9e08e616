"""Pure: `tc` commands for the links of a leaf-spine fabric: a rate, and queues by DSCP.

HTB in every case, because every kernel has it: a class of a higher level borrows first
("strict"), or classes have shares of the rate in proportion to 2^-level ("shares").  A small
guaranteed rate keeps the lowest from starving.  What carries no level's mark has the last
queue, network control (CS6, CS7) the first.
"""

from __future__ import annotations

from hostcc.lab.leafspine_plan import LeafSpineSpec, Queueing
from hostcc.lab.plan import ETHERNET_BYTES
from hostcc.lab.shaping import BURST_SECONDS, MIN_BURST_BYTES

ROOT = 0xFF
"""Class that has the link's rate."""
CONTROL = (48, 56)
LEAST_SHARE = 0.05
"""Of the rate, guaranteed to all classes together with strict queues."""
MAX_HTB_PRIO = 7


def commands(device: str, spec: LeafSpineSpec, rate_mbit: float) -> list[str]:
    """Shape a device that has the kernel's default queue."""
    lines = [f"qdisc add dev {device} root handle 1: htb default {_classes(spec):x}"]
    lines += _class_lines(device, spec, rate_mbit, "add")
    limit = spec.buffer_packets * (spec.mtu + ETHERNET_BYTES)
    for number in range(1, _classes(spec) + 1):
        lines.append(
            f"qdisc add dev {device} parent 1:{number:x} handle {0x10 + number:x}: "
            f"bfifo limit {limit}"
        )
    if spec.queues is not Queueing.FIFO:
        for number, dscp in [(1, mark) for mark in CONTROL] + list(enumerate(spec.levels, 1)):
            lines += _filters(device, dscp, number)
    return lines


def rate_commands(device: str, spec: LeafSpineSpec, rate_mbit: float) -> list[str]:
    """Give a shaped device another rate."""
    return _class_lines(device, spec, rate_mbit, "change")


def guarantees(spec: LeafSpineSpec, rate_mbit: float) -> list[float]:
    """Mbit/s that each class has whatever the others do, first level first."""
    count = _classes(spec)
    if spec.queues is Queueing.SHARES:
        weights = [2.0**-number for number in range(count)]
        return [rate_mbit * weight / sum(weights) for weight in weights]
    if spec.queues is Queueing.STRICT:
        return [rate_mbit * LEAST_SHARE / count] * count
    return [rate_mbit]


def _classes(spec: LeafSpineSpec) -> int:
    return 1 if spec.queues is Queueing.FIFO else len(spec.levels) + 1


def _class_lines(device: str, spec: LeafSpineSpec, rate_mbit: float, verb: str) -> list[str]:
    packet = spec.mtu + ETHERNET_BYTES
    burst = round(max(MIN_BURST_BYTES, rate_mbit * 1e6 / 8 * BURST_SECONDS, 2.5 * packet))
    start = f"class {verb} dev {device}"
    limits = f"burst {burst} cburst {burst} quantum {packet}"
    ceil = f"{round(rate_mbit * 1e6)}bit"
    lines = [f"{start} parent 1: classid 1:{ROOT:x} htb rate {ceil} ceil {ceil} {limits}"]
    for number, rate in enumerate(guarantees(spec, rate_mbit), 1):
        prio = min(number - 1, MAX_HTB_PRIO) if spec.queues is Queueing.STRICT else 0
        lines.append(
            f"{start} parent 1:{ROOT:x} classid 1:{number:x} htb rate {round(rate * 1e6)}bit "
            f"ceil {ceil} prio {prio} {limits}"
        )
    return lines


def _filters(device: str, dscp: int, number: int) -> list[str]:
    start, to = f"filter add dev {device} parent 1:", f"flowid 1:{number:x}"
    tos = f"{dscp << 2:#x} 0xfc"
    return [
        f"{start} protocol ip prio 1 u32 match ip dsfield {tos} {to}",
        f"{start} protocol ipv6 prio 2 u32 match ip6 priority {tos} {to}",
    ]
