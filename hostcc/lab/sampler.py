"""Record the byte counters of the switches' ports every few milliseconds.

A process of its own (`python -m hostcc.lab.sampler OUT INTERVAL_MS NAMESPACE...`), so that
its rhythm does not depend on what the runner does.  One read of /proc/net/dev gives every
port of a switch; text is kept as it is and taken apart after the run.  Says `sampling` after
the first sample.  Takes the last one at end of file on standard input, and then writes OUT, an
.npz: `times` (CLOCK_MONOTONIC seconds), `ports` (names) and `bytes` (samples x ports, bytes
that the switch has sent to each host).
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time
from pathlib import Path
from typing import Any

from hostcc.lab import netns


def parse_sent(text: bytes) -> dict[str, int]:
    """Bytes sent by each device of a /proc/net/dev."""
    sent = {}
    for line in text.splitlines()[2:]:
        name, _, fields = line.partition(b":")
        numbers = fields.split()
        if len(numbers) >= 9:
            sent[name.strip().decode()] = int(numbers[8])
    return sent


def is_host_port(name: str) -> bool:
    """Whether a device is a switch's port to a host: h and a number."""
    return name.startswith("h") and name[1:].isdigit()


def record(namespaces: list[str], interval_s: float) -> tuple[list[float], list[list[bytes]]]:
    """Sample until standard input ends, and once more; at least twice."""
    files = [
        netns.inside(name, lambda: os.open("/proc/thread-self/net/dev", os.O_RDONLY))
        for name in namespaces
    ]
    times: list[float] = []
    texts: list[list[bytes]] = []
    deadline = time.monotonic()
    ended = False
    while True:
        times.append(time.monotonic())
        texts.append([os.pread(fd, 1 << 16, 0) for fd in files])
        if ended:
            return times, texts
        if len(times) == 1:
            print("sampling", flush=True)
        deadline += interval_s
        left = deadline - time.monotonic()
        if left < 0:
            deadline -= left
            left = 0
        ended = bool(select.select([0], [], [], left)[0])


def table(texts: list[list[bytes]]) -> dict[str, Any]:
    """Counters as arrays: samples x ports."""
    import numpy as np

    rows = []
    ports: list[str] = []
    for parts in texts:
        sent: dict[str, int] = {}
        for part in parts:
            sent |= parse_sent(part)
        ports = ports or sorted(filter(is_host_port, sent), key=lambda name: int(name[1:]))
        rows.append([sent.get(port, 0) for port in ports])
    return {"ports": np.array(ports), "bytes": np.array(rows, dtype=np.int64)}


def main() -> None:
    """Sample the namespaces named on the command line."""
    gc.disable()
    out, interval_ms, *namespaces = sys.argv[1:]
    Path("/proc/self/timerslack_ns").write_text("1000")
    times, texts = record(namespaces, float(interval_ms) / 1e3)
    import numpy as np

    np.savez(out, times=np.array(times), **table(texts))


if __name__ == "__main__":
    main()
