"""In the guest: jobs that compute and send with the shim, and how they are talked to.

`python -m tests.vm.sender PAUSE_S SEND_S VARY` is one: it tries how many messages it sends in that
time.  At each line that it reads it begins to iterate: it computes, for PAUSE_S give or take its
part VARY, sends these messages, and computes on through the first half of that, until STOP is
there.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

from hostcc.verbs.build import SHIM
from tests.verbs.dialogue import Dialogue

PLAN, COUNTS = Path("/dev/shm/hostcc-rdma"), Path("/dev/shm/hostcc-qp")
STOP = Path("/run/senders.stop")
MESSAGE_BYTES, TRIAL = 4096, 120


def work(pause_s: float, send_s: float, vary: float) -> None:
    """Be a job, and print [begin, computed until, sent until] of each iteration, seconds."""
    from hostcc.verbs.steer import Route
    from tests.vm.roce_pair import Connection, Device

    connection = Connection(Device("rxa"), Device("rxb"), Route(0xC200))

    def send(count: int) -> float:
        for _ in range(count):
            connection.write(MESSAGE_BYTES)
            connection.wait(1)
        return time.monotonic()

    send(TRIAL)  # the first of all take longer
    before = time.monotonic()
    count = max(2, round(send_s / (send(TRIAL) - before) * TRIAL))
    print(count, flush=True)
    noise = random.Random(os.environ["HOSTCC_JOB"])
    for _ in sys.stdin:
        seen = []
        while not STOP.exists():
            time.sleep(pause_s * noise.uniform(1 - vary, 1 + vary))
            begin = time.monotonic()
            computed = send(count // 2)
            seen.append([begin, computed, send(count - count // 2)])
        print(json.dumps(seen), flush=True)


class Sender(Dialogue):
    """One job; it knows how many messages it sends, and has not begun."""

    def __init__(self, name: str, pause_s: float, send_s: float, vary: float = 0.0) -> None:
        words = [sys.executable, "-m", "tests.vm.sender", *map(str, (pause_s, send_s, vary))]
        env = os.environ | {"LD_PRELOAD": str(SHIM.target), "HOSTCC_JOB": name}
        pipe = subprocess.PIPE
        print(f"starting {name}", flush=True)  # the host waits for words
        self.process = subprocess.Popen(words, env=env, stdin=pipe, stdout=pipe, text=True)
        self.messages = int(self.says())

    def seen(self) -> list[list[float]]:
        """What it prints once STOP is there."""
        found: list[list[float]] = json.loads(self.says())
        return found

    def end(self) -> int:
        """Its exit status."""
        self.process.communicate(timeout=300)
        return self.process.returncode


def begun(senders: Collection[Sender]) -> list[int]:
    """Let them iterate, and return their processes.  Only now that all have tried: who tries beside
    another that sends is to send too little."""
    for sender in senders:
        sender.go()
    return [sender.process.pid for sender in senders]


if __name__ == "__main__":
    work(*map(float, sys.argv[1:]))
