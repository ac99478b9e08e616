"""One job that sends bursts, until the end of standard input.

    recurring_load CONTROL_SOCKET ADDRESS PORT JOB PERIOD_S BYTES SOURCE_PORT

Prints when its first byte left, seconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from pathlib import Path

from benchmarks.churn_load import PATIENCE_S, enter

BLOCK = bytes(1 << 16)


def main(words: list[str]) -> None:
    """See the module."""
    control, address, port, job, period_s, size, source = words
    enter(Path(control), job)
    with socket.create_connection((address, int(port)), PATIENCE_S, ("", int(source))) as sock:
        due, begun = time.monotonic(), False
        while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            for _ in range(max(1, int(size) // len(BLOCK))):
                at = time.monotonic()
                sock.sendall(BLOCK)
                if not begun:
                    print(at, flush=True)
                    begun = True
            due = max(due + float(period_s), time.monotonic())


if __name__ == "__main__":
    main(sys.argv[1:])
