"""Pure: a rate and queues for a device as `tc` commands, and the counters of the queues.

HTB above byte-limited FIFOs, because every kernel has both.  With queues by DSCP a class of
a higher level borrows first ("strict"), or classes have shares of the rate in proportion to
2^-level ("shares"); a small guaranteed rate keeps the lowest from starving.  What carries no
level's mark has the last queue, network control (CS6, CS7) the first.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from hostcc.lab.errors import LabError
from hostcc.lab.scenario_hosts import packet_bytes
from hostcc.lab.topology import FabricSettings, Queueing

BURST_SECONDS = 160e-6
"""Tokens that HTB may save up: what its timer needs to keep the link full at any rate."""
MIN_BURST_BYTES = 4000
MIN_BURST_PACKETS = 2.5
ROOT_CLASS = 0xFF
"""Class that has the link's rate, above those of the levels."""
CONTROL_DSCPS = (48, 56)
"""Network control: CS6 and CS7."""
STRICT_GUARANTEE = 0.05
"""Part of the rate that is guaranteed to all strict queues together."""
MAX_HTB_PRIO = 7


@dataclass(frozen=True)
class QueueCounters:
    """What a bottleneck has done so far."""

    packets: int = 0
    bytes: int = 0
    drops: int = 0

    def __sub__(self, earlier: QueueCounters) -> QueueCounters:
        return QueueCounters(
            self.packets - earlier.packets,
            self.bytes - earlier.bytes,
            self.drops - earlier.drops,
        )

    @property
    def loss_percent(self) -> float:
        """Drops per hundred packets offered."""
        offered = self.packets + self.drops
        return 100.0 * self.drops / offered if offered else 0.0


def burst_bytes(spec: FabricSettings, rate_mbit: float) -> int:
    """Bytes that may leave back to back."""
    by_time = rate_mbit * 1e6 / 8 * BURST_SECONDS
    return round(max(MIN_BURST_BYTES, by_time, MIN_BURST_PACKETS * packet_bytes(spec)))


def commands(device: str, spec: FabricSettings, rate_mbit: float) -> list[str]:
    """`tc` commands that shape a device which has the kernel's default queue.

    Queues are limited in bytes: a burst of several packets that travels as one buffer then
    takes the room of all of them.
    """
    count = len(guarantees(spec, rate_mbit))
    lines = [f"qdisc add dev {device} root handle 1: htb default {count:x}"]
    lines += _class_lines(device, spec, rate_mbit, "add")
    limit = spec.buffer_packets * packet_bytes(spec)
    for number in range(1, count + 1):
        lines.append(
            f"qdisc add dev {device} parent 1:{number:x} handle {0x10 + number:x}: "
            f"bfifo limit {limit}"
        )
    if spec.queues is not Queueing.FIFO:
        for number, dscp in [(1, mark) for mark in CONTROL_DSCPS] + list(enumerate(spec.levels, 1)):
            lines += _filters(device, dscp, number)
    return lines


def rate_commands(device: str, spec: FabricSettings, rate_mbit: float) -> list[str]:
    """`tc` commands that give a shaped device another rate."""
    return _class_lines(device, spec, rate_mbit, "change")


def guarantees(spec: FabricSettings, rate_mbit: float) -> list[float]:
    """Mbit/s that each class has whatever the others do, first level first."""
    count = len(spec.levels) + 1
    if spec.queues is Queueing.SHARES:
        weights = [2.0**-number for number in range(count)]
        return [rate_mbit * weight / sum(weights) for weight in weights]
    if spec.queues is Queueing.STRICT:
        return [rate_mbit * STRICT_GUARANTEE / count] * count
    return [rate_mbit]


def _class_lines(device: str, spec: FabricSettings, rate_mbit: float, verb: str) -> list[str]:
    burst = burst_bytes(spec, rate_mbit)
    start = f"class {verb} dev {device}"
    limits = f"burst {burst} cburst {burst} quantum {packet_bytes(spec)}"
    ceil = f"{round(rate_mbit * 1e6)}bit"
    if spec.queues is Queueing.FIFO:
        return [f"{start} parent 1: classid 1:1 htb rate {ceil} ceil {ceil} {limits}"]
    lines = [f"{start} parent 1: classid 1:{ROOT_CLASS:x} htb rate {ceil} ceil {ceil} {limits}"]
    for number, rate in enumerate(guarantees(spec, rate_mbit), 1):
        prio = min(number - 1, MAX_HTB_PRIO) if spec.queues is Queueing.STRICT else 0
        lines.append(
            f"{start} parent 1:{ROOT_CLASS:x} classid 1:{number:x} "
            f"htb rate {round(rate * 1e6)}bit ceil {ceil} prio {prio} {limits}"
        )
    return lines


def _filters(device: str, dscp: int, number: int) -> list[str]:
    start, to = f"filter add dev {device} parent 1:", f"flowid 1:{number:x}"
    tos = f"{dscp << 2:#x} 0xfc"
    return [
        f"{start} protocol ip prio 1 u32 match ip dsfield {tos} {to}",
        f"{start} protocol ipv6 prio 2 u32 match ip6 priority {tos} {to}",
    ]


def read_counters(namespace: str, device: str) -> QueueCounters:
    """Counters of a device's FIFOs since it was made.  Raises LabError."""
    done = subprocess.run(
        ["tc", "-n", namespace, "-s", "-j", "qdisc", "show", "dev", device],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"tc in {namespace}: {' '.join(done.stderr.split())}")
    return parse_counters(done.stdout)


def parse_counters(text: str) -> QueueCounters:
    """Counters of all FIFOs together in the output of `tc -s -j qdisc show`."""
    fifos = [one for one in json.loads(text or "[]") if one.get("kind") in ("bfifo", "pfifo")]
    return QueueCounters(
        *(sum(int(one.get(key, 0)) for one in fifos) for key in ("packets", "bytes", "drops"))
    )
