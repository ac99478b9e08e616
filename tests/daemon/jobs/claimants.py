"""Processes that say by their environment that they are ranks, each of a job of its own.

Words: how many, whose (a uid), the port at which the first job meets; others follow.  It says "up"
once all are there, and all end with it.  With `marks` as the fourth word the processes are all of
the job that this one is in, and each marks an iteration instead.
"""

from __future__ import annotations

import os
import signal
import sys

SLEEP = "/usr/bin/sleep"


def claim(port: int) -> int:
    ranks = {"RANK": "0", "MASTER_ADDR": "198.18.9.7", "MASTER_PORT": str(port)}
    return os.posix_spawn(SLEEP, ["sleep", "3600"], ranks)


def marker(_: int) -> int:
    import hostcc.mark

    pid = os.fork()
    if pid == 0:
        hostcc.mark.HELLO_EVERY_NS = 200_000_000
        while True:
            hostcc.mark.iteration()
            signal.sigtimedwait([signal.SIGTERM], 0.25)
    return pid


def main() -> None:
    count, uid, first, *marks = sys.argv[1:]
    os.setgroups([])
    os.setresgid(int(uid), int(uid), int(uid))
    os.setresuid(int(uid), int(uid), int(uid))
    begin = marker if marks else claim
    pids = [begin(int(first) + number) for number in range(int(count))]
    print("up", flush=True)
    sys.stdin.read()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
