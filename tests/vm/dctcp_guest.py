"""Runs in the guest: traffic on which the kernel's DCTCP and the product's are compared.

    python -m tests.vm.dctcp_guest DIRECTORY-WITH-OBJECTS

Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.bpf.loader.object import BpfObject
from hostcc.mltcp.params import JobParams, Mode, Shape, Variant
from tests.mltcp.peer import TCP_CONGESTION, control, unsent
from tests.mltcp.stage import mltcp_from

CGROUP = Path("/sys/fs/cgroup/job")
SLOT = 1
BYTES = 4_000_000
LONE_BYTES, LONE_PACKETS = 333, 4
ONE = JobParams(name="job", variant=Variant.DCTCP, shape=Shape(slope=0, intercept=1))
PREPARE = """
modprobe tcp_dctcp
ip link set lo mtu 1500 gso_max_segs 1
tc qdisc add dev lo clsact
tc filter add dev lo ingress bpf da obj {marker} sec tc
"""


def prepare(objects: Path) -> None:
    for line in PREPARE.format(marker=objects / "dctcp_marker.bpf.o").strip().splitlines():
        subprocess.run(line.split(), check=True)
    CGROUP.mkdir()
    (CGROUP / "cgroup.procs").write_text(str(os.getpid()))


def listen(congestion: str = "") -> socket.socket:
    """Swallows everything."""
    listener = socket.create_server(("127.0.0.1", 0))
    if congestion:
        listener.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, congestion.encode())

    def swallow() -> None:
        while True:
            link, _ = listener.accept()
            while link.recv(1 << 20):
                pass
            link.close()

    threading.Thread(target=swallow, daemon=True).start()
    return listener


def send(link: socket.socket, data: bytes) -> None:
    """Until it has been acknowledged."""
    link.sendall(data)
    while unsent(link):
        time.sleep(0.002)


def dial(listener: socket.socket) -> socket.socket:
    link = socket.create_connection(listener.getsockname())
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def exchange(listener: socket.socket) -> None:
    """A stream with marks and losses, and lone packets that end in a time-out."""
    with dial(listener) as link:
        send(link, bytes(BYTES))
        for _ in range(LONE_PACKETS):
            send(link, bytes(LONE_BYTES))
        send(link, bytes(BYTES // 4))


def counts(obj: BpfObject) -> dict[str, Any]:
    """What was compared since the last call, by operation."""
    table = obj.map("both_counts")
    rows = table.lookup_batch()[1]
    values = [n.removeprefix("VALUE_").lower() for n in obj.enums if n.startswith("VALUE_")]
    found = {}
    for name, number in obj.enums.items():
        if not name.startswith("BOTH_") or name == "BOTH_OPS":
            continue
        row = rows[number]
        pairs = zip(values, row["want"].tolist(), row["got"].tolist(), strict=True)
        found[name.removeprefix("BOTH_").lower()] = {
            "calls": int(row["calls"]),
            "mismatches": int(row["mismatches"]),
            "acks": int(row["acks"]),
            "arguments": row["arguments"].tolist(),
            "last": {value: [want, got] for value, want, got in pairs if want != got},
        }
        table.update(number, np.zeros((), table.value_dtype))
    return found


def capable() -> int:
    """Packets with ECT that this host has received."""
    lines = Path("/proc/net/netstat").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith("IpExt:"))
    return int(dict(zip(names, values, strict=True))["InECT0Pkts"])


def main() -> None:
    objects = Path(sys.argv[1])
    prepare(objects)
    print("prepared", flush=True)  # who says nothing for long is taken to be stuck
    report: dict[str, Any] = {"kernel": platform.release()}
    operations = {Variant.DCTCP: "both_dctcp", Variant.RENO: "hcc_reno"}
    with mltcp_from(objects / "dctcp_shadow.bpf.o", operations) as (kernel, obj):
        kernel.attach_cgroup(SLOT, CGROUP)
        kernel.set_job(SLOT, ONE)
        listener = listen()
        exchange(listener)
        report["one"] = counts(obj)
        print("compared", flush=True)
        kernel.set_job(SLOT, replace(ONE, mode=Mode.STATIC, static_weight=3))
        exchange(listener)
        report["three"] = counts(obj)
        # Its owner chose: not adopted, and it accepts no ECN from those that insist on it.
        with dial(listen("cubic")) as link:
            before = capable()
            send(link, bytes(BYTES // 20))
            report["refused"] = [control(link), kernel.ca_names["reno"], capable() - before]
    print(json.dumps(report))


if __name__ == "__main__":
    main()
