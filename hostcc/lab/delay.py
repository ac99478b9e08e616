"""Base round-trip time: netem where the kernel has it, else a delay line on a TUN device.

Both sit on the way back (towards the left switch's hosts), so that data of left-to-right
jobs passes the bottleneck untouched and only acknowledgements wait.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from hostcc.lab import compile as compiler
from hostcc.lab import netns
from hostcc.lab.errors import LabError

TUN_DEVICE = "delay"
ROUTING_TABLE = 100


def netem_commands(ports: Sequence[str], extra_us: int) -> list[str]:
    """`tc` commands that delay what a switch sends out of each port."""
    return [f"qdisc add dev {port} root netem delay {extra_us}us limit 100000" for port in ports]


def start(
    namespace: str, group: Path, devices: Sequence[str], mtu: int, extra_us: int, run_dir: Path
) -> subprocess.Popen[bytes]:
    """Route what arrives by the devices through a delay line; returns its process."""
    program = compiler.program("delayline.c")
    netns.batch("ip", [f"tuntap add dev {TUN_DEVICE} mode tun"], namespace)
    netns.batch("ip", [f"link set {TUN_DEVICE} mtu {mtu} txqueuelen 10000 up"], namespace)
    log_file = run_dir / f"{namespace}.delayline.log"
    with log_file.open("wb") as log:
        process = netns.spawn(
            [str(program), TUN_DEVICE, str(extra_us)],
            namespace=namespace,
            cgroup=group,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        process.kill()
        process.communicate()
        words = " ".join(log_file.read_text().split())
        raise LabError(f"delay line: {words or 'did not start'}")
    for family in ("-4", "-6"):
        netns.batch(
            "ip",
            [
                f"route add default dev {TUN_DEVICE} table {ROUTING_TABLE}",
                *(f"rule add iif {one} lookup {ROUTING_TABLE} priority 100" for one in devices),
            ],
            namespace,
            family,
        )
    return process
