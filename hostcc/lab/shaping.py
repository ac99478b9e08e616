"""The bottleneck: HTB above a byte-limited FIFO, as `tc` commands, and its counters."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from hostcc.lab.errors import LabError
from hostcc.lab.plan import packet_bytes
from hostcc.lab.scenario import FabricSpec

BURST_SECONDS = 160e-6
"""Tokens that HTB may save up: what its timer needs to keep the link full at any rate."""
MIN_BURST_BYTES = 4000


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


def burst_bytes(fabric: FabricSpec) -> int:
    """Bytes that may leave back to back."""
    by_time = fabric.rate_mbit * 1e6 / 8 * BURST_SECONDS
    return round(max(MIN_BURST_BYTES, by_time, 2.5 * packet_bytes(fabric)))


def bottleneck_commands(device: str, fabric: FabricSpec) -> list[str]:
    """`tc` commands that shape a device.

    The queue is limited in bytes: a burst of several packets that travels as one buffer then
    takes the room of all of them.
    """
    rate = f"{round(fabric.rate_mbit * 1e6)}bit"
    burst = burst_bytes(fabric)
    packet = packet_bytes(fabric)
    limits = f"burst {burst} cburst {burst} quantum {packet}"
    queue = fabric.buffer_packets * packet
    return [
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb rate {rate} ceil {rate} {limits}",
        f"qdisc add dev {device} parent 1:1 handle 10: bfifo limit {queue}",
    ]


def read_counters(namespace: str, device: str) -> QueueCounters:
    """Counters of a device's FIFOs since it was made."""
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
