"""An agent as a process of its own, to be killed at any step of an exchange.

Words: host, its address, peer, its address, folder of the sockets, the step before which it
kills itself (0: never), own port and destination port of a flow to the peer, first port on the
wire (0: it moves nothing).  It moves the flow to that port, to the next one, back to its own,
and so on for ever; it says "up", and "round" after each round.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

from hostcc.paths.steer_kernel import SteerKernel
from hostcc.paths.steering import Steering
from hostcc.paths.steering_messages import Effect, FlowKey, Timing

TIMING = Timing(retry_s=0.05, drain_s=0.1, quarantine_s=0.1)
STALE_S = 0.5


class Mortal(Steering):
    """Dies before its n-th effect."""

    left = 0

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            super()._do([effect])


def main() -> None:
    host, mine, peer, theirs, folder, step, own, port, wire = sys.argv[1:]
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    at = Path(folder) / host
    at.unlink(missing_ok=True)
    sock.bind(str(at))
    sock.settimeout(0.02)

    def post(to: str, data: bytes) -> None:
        with contextlib.suppress(OSError):  # a dead peer: a lost message
            sock.sendto(data, str(Path(folder) / to))

    Mortal.left = int(step)
    kernel = SteerKernel(["eth0"], stale_s=STALE_S)
    owner = {mine: host, theirs: peer}
    agent = Mortal(kernel, post, lambda a: owner.get(a, ""), lambda a: a == mine, TIMING)
    print("up", flush=True)
    flow = FlowKey(mine, theirs, int(own), int(port))
    plan = [int(wire), int(wire) + 1, 0]
    at_step = 0
    while True:
        agent.tick()
        wanted = plan[at_step % 3]
        if plan[0] and agent.sender.active(flow) == wanted:
            at_step += 1
            if wanted == 0:
                print("round", flush=True)
        elif plan[0] and wanted == 0:
            agent.revert(flow)
        elif plan[0] and not agent.sender.moving(flow):
            agent.move(flow, peer, wanted)
        try:
            data = sock.recv(2048)
        except TimeoutError:
            continue
        agent.heard(peer, data)


main()
