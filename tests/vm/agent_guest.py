"""In the guest: hostcc's agent and two jobs that know nothing of it, by `hostcc run --rdma`.

Both jobs are on the only path there is; then the second path comes up.  With the word `dies` the
first one dies then, without a router noticing, and queue pairs send again after `4.096 us * 2^18`.
Prints one JSON object.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from hostcc.client import ask
from hostcc.errors import HostccError
from tests.vm import roce_fabric
from tests.vm.allreduce import LATE_TIMEOUT, STOP
from tests.vm.patience import listens, until, worked_s
from tests.vm.roce_fabric import Capture
from tests.vm.roce_ways import ways
from tests.vm.wire import settled

RUN = Path("/run/hostcc-vm")
SOCKET = RUN / "control.sock"
CONFIG = Path("/tmp/hostcc-vm.toml")
JOBS = {"heavy": 4.0, "light": 1.0}
DSCP = [56, 48, 40, 32, 24, 16, 8, 0]
TEXT = """
[agent]
run_dir = "{run}"
heartbeat_s = 0.5
heartbeat_stale_s = {stale}
socket_group = ""
[rdma]
dscp = {dscp}
probe_s = 4.0
[[paths.link]]
link = ">198.19.*"
mbit_per_s = {path}
[[paths.link]]
link = "*198.18.*"
mbit_per_s = {own}
"""
STALE_S, PATIENCE_S = 40.0, 90.0
"""The emulator takes many seconds to load what takes a moment elsewhere."""
WORK_S, RATE_S = 300.0, 6.0
UCX_TIMEOUT = 18
"""1.07 s, as UCX has it where nobody chooses."""
LEFT_EVERY_S = 0.01
MOST_BYTES, MOST_PACKETS = 1e9, 60_000
"""Of both jobs, by when the agent should have done what it has to do."""


def configure(rate: float) -> None:
    """`rate`: what one job sends, bytes per second: no path carries two of them."""
    bits = rate * 8e-6
    CONFIG.write_text(
        TEXT.format(run=RUN, stale=STALE_S, dscp=DSCP, path=1.1 * bits, own=1.5 * bits)
    )


def agent() -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "hostcc", "agent", "--config", str(CONFIG)]
    process = subprocess.Popen(words)

    def answers() -> bool:
        assert process.poll() is None, "the agent ended"
        try:
            ask(SOCKET, "status")
        except HostccError:
            return False
        return True

    until(answers, lambda: worked_s([process.pid]), "an agent", WORK_S)
    return process


def start(job: str, port: int, timeout: int) -> list[subprocess.Popen[str]]:
    made = []
    for rank in ("0", "1"):
        inner = [sys.executable, "-m", "tests.vm.allreduce", rank, str(port), "100000", "0.05",
                 str(timeout)]  # fmt: skip
        words = [sys.executable, "-m", "hostcc", "run", "--rdma", "--job", job,
                 "--weight", str(JOBS[job]), "--socket", str(SOCKET), "--", *inner]  # fmt: skip
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        made.append(process)
        if rank == "0":
            works = partial(worked_s, [process.pid])
            until(partial(listens, port), works, "the first process", WORK_S)
    return made


def told() -> dict[str, Any]:
    """Job -> what status says of it."""
    return {row["job"]: row for row in part().get("rdma", [])}


def part() -> dict[str, Any]:
    """What status says of RDMA."""
    rows = ask(SOCKET, "status", PATIENCE_S)["parts"]
    return next(row for row in rows if row["name"] == "rdma-plan")


def sent() -> dict[str, int]:
    """Job -> bytes, as its queue pairs count them."""
    rows = told()
    return {job: rows[job]["bytes"] if job in rows else 0 for job in JOBS}


def rate() -> float:
    """Bytes per second of one process of the faster job; 0 until both jobs send."""
    then = sent()
    time.sleep(RATE_S)
    rates = [(size - then[job]) / RATE_S / 2 for job, size in sent().items()]
    return max(rates) if all(one > 0 for one in rates) else 0.0


def left_after_s(capture: Capture, victim: int, began: float) -> float:
    """Seconds until packets of a class are on the second path."""
    seen = 0

    def is_there() -> bool:
        nonlocal seen
        packets = capture.take()
        seen += len(packets)
        return any((one.path, one.traffic_class) == ("p1", victim) for one in packets)

    until(is_there, lambda: seen, "packets until a path is left", MOST_PACKETS, LEFT_EVERY_S)
    return time.monotonic() - began


def main(*, path_dies: bool) -> None:
    began = time.monotonic()
    roce_fabric.build()
    ways()
    roce_fabric.one_path()
    capture = Capture()
    on = partial(settled, capture, jobs=len(JOBS), most=MOST_PACKETS)
    RUN.mkdir()
    configure(1e6)
    first = agent()
    timeout = UCX_TIMEOUT if path_dies else LATE_TIMEOUT
    runs = [*start("heavy", 18600, timeout), *start("light", 18601, timeout)]
    fastest = until(rate, lambda: sum(sent().values()), "bytes of both jobs", MOST_BYTES)
    configure(max(fastest, 1e3))
    first.send_signal(signal.SIGHUP)
    report: dict[str, Any] = {"rate": fastest, "before": on({"p0"})}
    told_before = told()
    roce_fabric.two_paths()
    report["after"] = on({"p0", "p1"})
    report["told"] = [told_before, told()]
    if path_dies:
        (victim,) = (row[2] for row in report["after"] if row[0] == "p0")
        capture.take()
        died = time.monotonic()
        roce_fabric.run("ip -n f2 link set p0 down")  # its neighbour f1 goes on sending there
        print("died", time.strftime("%T", time.gmtime()), flush=True)
        report["failure_s"] = left_after_s(capture, victim, died)
        report["after_failure"] = on({"p1"})
    report["part"] = part()
    report["verify"] = ask(SOCKET, "verify", PATIENCE_S)["differences"]
    first.kill()
    first.wait()
    # They go on where they are.
    report["after_death"] = on({"p1"} if path_dies else {"p0", "p1"})
    STOP.touch()
    outputs = [run.communicate(timeout=120)[0] for run in runs]
    report["status"] = [run.returncode for run in runs]
    report["good"] = [json.loads(text.splitlines()[-1])["good"] for text in outputs if text]
    report["seconds"] = time.monotonic() - began
    print("REPORT " + json.dumps(report))


if __name__ == "__main__":
    main(path_dies="dies" in sys.argv[1:])
