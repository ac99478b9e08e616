"""Path and class of queue pairs that this process owns, with pyverbs.

At INIT to RTR the address vector says both.  Live, mlx5 takes another source port in RTS;
else a queue pair goes RTS, SQD, wait until drained, SQD with the new address vector, RTS:
the only order that works (docs/internals/verbs.md).  Work that was queued meanwhile waits for the
next
doorbell, so every change ends with one.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

import pyverbs.enums as verbs
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr
from pyverbs.wr import SGE, SendWR

from hostcc.errors import HostccError, InputError
from hostcc.verbs.ports import label_of, port_of

DRAIN_S = 2.0
POLL_S = 0.0005
RETRIES = 2000
NUDGE_EVERY = 20
"""Polls.  Soft-RoCE notices that it has drained only when it looks at its queue."""
TOO_MANY_SGES = 1024


@dataclass(frozen=True)
class Route:
    """Source port and traffic class of a queue pair."""

    port: int | None = None
    """UDP source port, 49152 to 65535; None: as the device chooses."""
    traffic_class: int = 0
    """The whole byte, ECN bits included."""

    @property
    def label(self) -> int:
        """Flow label that stands for the port; 0 leaves it to the device."""
        return 0 if self.port is None else label_of(self.port)


@dataclass(frozen=True)
class QpState:
    """State of a queue pair."""

    number: int
    state: int
    """enum ibv_qp_state."""
    route: Route


def address(
    gid: Any, gid_index: int, route: Route, hop_limit: int = 64, device_port: int = 1
) -> AHAttr:
    """Make an address vector to `gid` on a route.  Raises InputError."""
    if not 0 <= route.traffic_class <= 0xFF:
        raise InputError(f"traffic class {route.traffic_class}: expected 0 to 255")
    return AHAttr(
        gr=GlobalRoute(
            dgid=gid, sgid_index=gid_index, flow_label=route.label, hop_limit=hop_limit,
            traffic_class=route.traffic_class,
        ),
        is_global=1, port_num=device_port,
    )  # fmt: skip


def read(qp: QP) -> QpState:
    """Read a queue pair's state and route."""
    attr, _ = qp.query(verbs.IBV_QP_STATE | verbs.IBV_QP_AV)
    label = attr.ah_attr.flow_label
    return QpState(
        qp.qp_num,
        attr.qp_state,
        Route(port_of(label) if label else None, attr.ah_attr.traffic_class),
    )


def move(qp: QP, vector: AHAttr, port: int | None = None, drain_s: float = DRAIN_S) -> float:
    """Give a live queue pair another address vector; returns the seconds that it took.

    `port`: only the source port changes, so devices that can do so in RTS may.  Raises
    HostccError when it did not work; the queue pair is then back where it was, if at all
    possible.
    """
    began = time.monotonic()
    if port is not None and _by_call(qp, port):
        return time.monotonic() - began
    try:
        _to(qp, verbs.IBV_QPS_SQD)
    except PyverbsRDMAError as error:
        raise HostccError(f"queue pair {qp.qp_num}: cannot be drained: {error}") from None
    failed = "" if _drained(qp, drain_s) else f"its queue did not drain in {drain_s:g} s"
    if not failed:
        try:
            _to(qp, verbs.IBV_QPS_SQD, vector)
        except PyverbsRDMAError as error:
            failed = str(error)
    _back(qp)
    nudge(qp)
    if failed:
        raise HostccError(f"queue pair {qp.qp_num}: not moved: {failed}")
    return time.monotonic() - began


def nudge(qp: QP) -> None:
    """Ring the doorbell without posting: a request with more pieces than any queue takes.

    It is refused, but Soft-RoCE then looks at what is queued; hardware needs no nudge.
    """
    pieces = [SGE(0, 0, 0)] * TOO_MANY_SGES
    request = SendWR(sg=pieces, num_sge=len(pieces), opcode=verbs.IBV_WR_RDMA_WRITE)
    try:
        qp.post_send(request)
    except (PyverbsError, PyverbsRDMAError):
        return


def _by_call(qp: QP, port: int) -> bool:
    # mlx5's source-port call, where the queue pair is one of its.
    call = getattr(qp, "modify_udp_sport", None)
    if call is None:
        return False
    try:
        call(port)
    except PyverbsRDMAError:
        return False
    return True


def _to(qp: QP, state: int, vector: AHAttr | None = None) -> None:
    attr = QPAttr(port_num=1)
    attr.qp_state = state
    mask = verbs.IBV_QP_STATE
    if vector is not None:
        attr.ah_attr = vector
        mask |= verbs.IBV_QP_AV
    qp.modify(attr, mask)


def _drained(qp: QP, limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    for poll in itertools.count(1):
        attr, _ = qp.query(verbs.IBV_QP_STATE)
        if attr.qp_state != verbs.IBV_QPS_SQD:
            return False
        if not attr.sq_draining:
            return True
        if time.monotonic() > deadline:
            return False
        if poll % NUDGE_EVERY == 0:
            nudge(qp)
        time.sleep(POLL_S)
    raise AssertionError("unreachable")


def _back(qp: QP) -> None:
    for attempt in range(RETRIES):
        try:
            _to(qp, verbs.IBV_QPS_RTS)
        except PyverbsRDMAError:
            if attempt % NUDGE_EVERY == 0:
                nudge(qp)
            time.sleep(POLL_S)
        else:
            return
    raise HostccError(f"queue pair {qp.qp_num}: stays in SQD or has failed")
