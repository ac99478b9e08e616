"""What it costs the agent to read the shim's bursts: `python -m tests.daemon.gates.poll_cost`.

Prints, for 1, 8 and 32 processes of a job, microseconds of a reading, and the share of a processor
that a loop takes which reads them every POLL_S.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from hostcc.daemon.gates.job_gates import Gate
from hostcc.daemon.gates.shim_gates import POLL_S, ShimGates
from hostcc.schedule.gates.groups import Exchange
from tests.daemon.gates.shims import Shims, sleeper

READINGS, LOOP_S = 5000, 6.0


async def share(gates: ShimGates) -> float:
    """Of a processor, at 1 / POLL_S readings a second; a busy machine makes fewer."""
    loop, count = asyncio.get_running_loop(), 0

    def poll() -> None:
        nonlocal count
        gates.bursts(loop.time())
        count += 1
        loop.call_later(POLL_S, poll)

    poll()
    began = time.process_time()
    await asyncio.sleep(LOOP_S)
    return (time.process_time() - began) / count / POLL_S


def main() -> None:
    for number in (1, 8, 32):
        processes = [sleeper() for _ in range(number)]
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            shims = Shims(Path(folder))
            for process in processes:
                shims.add("a", process.pid)
            shims.publish()
            gates = shims.gates()
            gates.look()
            gates.arm({"a": Gate(0.0, Exchange(0.3, 0.1, 0.1, 0.9))})
            began = time.process_time()
            for _ in range(READINGS):
                gates.bursts(1.0)
            each_us = (time.process_time() - began) / READINGS * 1e6
            part = asyncio.run(share(gates))
            print(f"{number} processes: {each_us:.0f} us, {part:.1%} of a processor")
            gates.close()
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
