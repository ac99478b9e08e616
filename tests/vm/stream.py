"""In the guest: one of two processes of a job that sends over TCP now and then.

It knows nothing of hostcc.  `python -m tests.vm.stream receive|send`; it ends when it is told so,
or when the other process has.
"""

from __future__ import annotations

import socket
import sys
import time

from tests.vm.allreduce import STOP
from tests.vm.roce_fabric import ADDRESS

PORT = 18700
BYTES, COMPUTE_S = 20_000, 0.2


def receive() -> None:
    with socket.create_server((ADDRESS["rxb"], PORT)) as server, server.accept()[0] as wire:
        while wire.recv(BYTES):
            pass


def send() -> None:
    source = ADDRESS["rxa"], 0
    with socket.create_connection((ADDRESS["rxb"], PORT), source_address=source) as wire:
        while not STOP.exists():
            wire.sendall(bytes(BYTES))
            time.sleep(COMPUTE_S)


if __name__ == "__main__":
    {"receive": receive, "send": send}[sys.argv[1]]()
