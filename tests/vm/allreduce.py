"""In the guest: one of two processes that sum vectors over RDMA, as a training job would.

It knows nothing of hostcc: plain pyverbs, flow label and class left at 0.

`python -m tests.vm.allreduce RANK PORT ITERATIONS COMPUTE_S [TIMEOUT]` prints bytes sent and a
check.  The queue pair sends again what was not acknowledged for 4.096 us * 2^TIMEOUT.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pyverbs.enums as verbs
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

STOP = Path("/run/allreduce.stop")
"""Where it exists the processes end after this iteration."""
COMPLETION_S = 120.0
LATE_TIMEOUT = 28
"""18 minutes, and nothing is lost here.  Soft-RoCE's timer is not set back by a completion: it runs
out while the next message is on its way, and sends that again, which now and then breaks the queue
pair."""
POLL_S = 0.0005
"""Between two looks: a processor that only looks is emulated at a high price."""
LENGTH = 16384
SIZE = LENGTH * 8
ACCESS = verbs.IBV_ACCESS_LOCAL_WRITE | verbs.IBV_ACCESS_REMOTE_WRITE


def meet(rank: int, port: int) -> socket.socket:
    if rank == 0:
        with socket.create_server(("127.0.0.1", port)) as server:
            return server.accept()[0]
    return socket.create_connection(("127.0.0.1", port))


def main() -> None:
    rank, port, iterations = (int(word) for word in sys.argv[1:4])
    compute_s = float(sys.argv[4])
    timeout = int(sys.argv[5]) if len(sys.argv) > 5 else LATE_TIMEOUT
    context = Context(name=("rxa", "rxb")[rank])
    domain = PD(context)
    memory = MR(domain, 2 * SIZE, ACCESS)
    queue = CQ(context, 64)
    qp = QP(domain, QPInitAttr(qp_type=verbs.IBV_QPT_RC, scq=queue, rcq=queue,
                               cap=QPCap(16, 16, 1, 1, 0), sq_sig_all=0))  # fmt: skip
    wire = meet(rank, port)
    gid = context.query_gid(1, 1)
    mine = {"qpn": qp.qp_num, "key": memory.rkey, "at": memory.buf + SIZE, "gid": str(gid)}
    wire.sendall(json.dumps(mine).encode() + b"\n")
    peer = json.loads(wire.makefile().readline())
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = ACCESS
    attr.path_mtu, attr.dest_qp_num = verbs.IBV_MTU_1024, peer["qpn"]
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, timeout, 7, 7
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
    grh = GlobalRoute(dgid=GID(peer["gid"]), sgid_index=1, hop_limit=64)
    attr.ah_attr = AHAttr(gr=grh, is_global=1, port_num=1)
    qp.to_rts(attr)
    rng = np.random.default_rng(rank)
    other = np.random.default_rng(1 - rank)
    good, sent = True, 0
    receive = RecvWR(sg=[SGE(memory.buf, 8, memory.lkey)], num_sge=1)
    qp.post_recv(receive)
    wire.sendall(b"!")
    wire.recv(1)
    for _ in range(iterations):
        vector, expected = rng.integers(0, 1 << 40, LENGTH), other.integers(0, 1 << 40, LENGTH)
        memory.write(vector.astype("<i8").tobytes(), SIZE)
        for part in range(4):
            last = part == 3
            piece = SendWR(
                sg=[SGE(memory.buf + part * SIZE // 4, SIZE // 4, memory.lkey)], num_sge=1,
                opcode=verbs.IBV_WR_RDMA_WRITE_WITH_IMM if last else verbs.IBV_WR_RDMA_WRITE,
                send_flags=verbs.IBV_SEND_SIGNALED if last else 0,
            )  # fmt: skip
            piece.set_wr_rdma(peer["key"], peer["at"] + part * SIZE // 4)
            qp.post_send(piece)
        wanted, deadline = 2, time.monotonic() + COMPLETION_S
        while wanted:
            got, done = queue.poll(1)
            if got:
                assert done[0].status == verbs.IBV_WC_SUCCESS, done[0].status
                wanted -= 1
            else:
                time.sleep(POLL_S)
            assert time.monotonic() < deadline, "no completion"
        qp.post_recv(receive)
        received = np.frombuffer(memory.read(SIZE, SIZE), "<i8")
        good &= bool((vector + received == vector + expected).all())
        sent += SIZE
        mine_ends = b"." if STOP.exists() else b"!"
        wire.sendall(mine_ends)
        if b"." in (mine_ends, wire.recv(1)):  # both see both: they end together
            break
        time.sleep(compute_s)
    print(json.dumps({"good": good, "bytes": sent}))


if __name__ == "__main__":
    main()
