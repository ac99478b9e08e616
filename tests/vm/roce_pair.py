"""In the guest: reliable connections between the two devices, with pyverbs."""

from __future__ import annotations

import time

import pyverbs.enums as verbs
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

from hostcc.verbs.steer import Route, address
from tests.vm.roce_fabric import IPV4_GID

ACCESS = verbs.IBV_ACCESS_LOCAL_WRITE | verbs.IBV_ACCESS_REMOTE_WRITE | verbs.IBV_ACCESS_REMOTE_READ
PATIENCE_S = 120.0


class Device:
    """One device with registered memory."""

    def __init__(self, name: str, size: int = 1 << 20) -> None:
        self.context = Context(name=name)
        self.domain = PD(self.context)
        self.memory = MR(self.domain, size, ACCESS)
        self.gid = self.context.query_gid(1, IPV4_GID)


class Connection:
    """From one device to another."""

    def __init__(self, near: Device, far: Device, route: Route, signalled: bool = True) -> None:
        self.near, self.far = near, far
        self.queues = [CQ(device.context, 256) for device in (near, far)]
        cap = QPCap(64, 64, 1, 1, 0)
        self.pairs = [
            QP(
                device.domain,
                QPInitAttr(
                    qp_type=verbs.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=int(signalled)
                ),
            )
            for device, cq in zip((near, far), self.queues, strict=True)
        ]
        self._up(0, route)
        self._up(1, route)

    @property
    def qp(self) -> QP:
        """The sender's."""
        return self.pairs[0]

    def _up(self, side: int, route: Route) -> None:
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.path_mtu, attr.dest_qp_num = verbs.IBV_MTU_1024, self.pairs[1 - side].qp_num
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 20, 7, 7
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
        peer = (self.near, self.far)[1 - side]
        attr.ah_attr = address(peer.gid, IPV4_GID, route)
        self.pairs[side].to_rts(attr)

    def vector(self, route: Route) -> object:
        """An address vector to the far end on another route."""
        return address(self.far.gid, IPV4_GID, route)

    def write(self, size: int, number: int = 1) -> None:
        """Post one RDMA write of the start of the memory."""
        near, far = self.near.memory, self.far.memory
        request = SendWR(
            wr_id=number, sg=[SGE(near.buf, size, near.lkey)], num_sge=1,
            opcode=verbs.IBV_WR_RDMA_WRITE,
        )  # fmt: skip
        request.set_wr_rdma(far.rkey, far.buf)
        self.qp.post_send(request)

    def wait(self, count: int) -> None:
        """Until so many writes are acknowledged."""
        deadline = time.monotonic() + PATIENCE_S
        while count:
            got, done = self.queues[0].poll(1)
            if got:
                assert done[0].status == verbs.IBV_WC_SUCCESS, f"status {done[0].status}"
                count -= 1
            elif time.monotonic() > deadline:
                raise AssertionError(f"{count} completions are missing")
            else:
                time.sleep(0)
