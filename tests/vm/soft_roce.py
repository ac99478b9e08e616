"""In the guest: two Soft-RoCE devices on one wire, and RDMA writes between them.

`python -m tests.vm.soft_roce BYTES TIMES` prints one JSON object: what
hostcc.measure.rdma_counters read before and after, and the trees that it read from.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pyverbs.enums as verbs
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

from hostcc.cli import nics
from hostcc.measure.rdma_counters import SYSFS, HostRdma

IPV4_GID = 1
MTU_BYTES = 1024
PATIENCE_S = 60.0
ENDS = (("rxa", "va", "198.18.9.1"), ("rxb", "vb", "198.18.9.2"))
ACCESS = verbs.IBV_ACCESS_LOCAL_WRITE | verbs.IBV_ACCESS_REMOTE_WRITE | verbs.IBV_ACCESS_REMOTE_READ


def run(command: str) -> None:
    subprocess.run(command.split(), check=True)


def wire() -> None:
    """Both ends are in one namespace: routing rules force what is local onto the wire."""
    for module in ("veth", "rdma_rxe"):
        run(f"modprobe {module}")
    run("ip link add va type veth peer name vb")
    for name in ("all", "default", "va", "vb"):
        for key, value in (("rp_filter", 0), ("accept_local", 1), ("arp_ignore", 1)):
            Path(f"/proc/sys/net/ipv4/conf/{name}/{key}").write_text(str(value))
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    for _, link, address in ENDS:
        run(f"ip addr add {address}/24 dev {link}")
        run(f"ip link set {link} up")
        run(f"ip rule add pref 10 iif {link} lookup local")
    run(f"ip route add {ENDS[1][2]} dev va src {ENDS[0][2]} table 100")
    run(f"ip route add {ENDS[0][2]} dev vb src {ENDS[1][2]} table 100")
    run("ip rule add pref 20 lookup 100")
    run("ip rule add pref 32 lookup local")
    run("ip rule del pref 0")
    for device, link, _ in ENDS:
        run(f"rdma link add {device} type rxe netdev {link}")


class Pair:
    """One reliable connection between the two devices."""

    def __init__(self, size: int) -> None:
        self.contexts = [Context(name=device) for device, _, _ in ENDS]
        self.domains = [PD(context) for context in self.contexts]
        self.memory = [MR(domain, size, ACCESS) for domain in self.domains]
        self.queues = [CQ(context, 16) for context in self.contexts]
        self.pairs = [
            QP(
                domain,
                QPInitAttr(
                    qp_type=verbs.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(8, 8, 1, 1, 0), sq_sig_all=1
                ),
            )
            for domain, cq in zip(self.domains, self.queues, strict=True)
        ]  # fmt: skip
        for side in (0, 1):
            self._bring_up(side)

    def _bring_up(self, side: int) -> None:
        gid = self.contexts[1 - side].query_gid(1, IPV4_GID)
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.path_mtu, attr.dest_qp_num = verbs.IBV_MTU_1024, self.pairs[1 - side].qp_num
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 20, 7, 7
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
        attr.ah_attr = AHAttr(
            gr=GlobalRoute(dgid=gid, sgid_index=IPV4_GID), is_global=1, port_num=1
        )
        pair = self.pairs[side]
        pair.to_rts(attr)

    def write(self, size: int) -> None:
        """One RDMA write from the first to the second; returns when it is acknowledged."""
        near, far = self.memory
        request = SendWR(
            wr_id=1, sg=[SGE(near.buf, size, near.lkey)], num_sge=1,
            opcode=verbs.IBV_WR_RDMA_WRITE,
        )  # fmt: skip
        request.set_wr_rdma(far.rkey, far.buf)
        self.pairs[0].post_send(request)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            count, done = self.queues[0].poll(1)
            if count:
                assert done[0].status == verbs.IBV_WC_SUCCESS, done[0].status
                return
        raise AssertionError("no completion")


def tree(device: str) -> dict[str, str]:
    """The files of a device's port that the reader looks at."""
    port = SYSFS / device / "ports/1"
    files = [port / name for name in ("link_layer", "rate", "gid_attrs/ndevs/0")]
    files += sorted([*port.glob("counters/*"), *port.glob("hw_counters/*")])
    return {str(file.relative_to(SYSFS)): file.read_text() for file in files}


def netdev_bytes(link: str) -> int:
    return int(Path(f"/sys/class/net/{link}/statistics/tx_bytes").read_text())


def main() -> None:
    size, times = map(int, sys.argv[1:])
    wire()
    counters = HostRdma()
    pair = Pair(size)
    pair.write(size)  # resolves the neighbour, too
    before, wire_before = counters.read(), netdev_bytes("va")
    for _ in range(times):
        pair.write(size)
    time.sleep(0.1)  # the kernel keeps what it read for `lifespan` milliseconds
    after, wire_after = counters.read(), netdev_bytes("va")
    report: dict[str, Any] = {
        "before": msgspec.to_builtins(before),
        "after": msgspec.to_builtins(after),
        "wire": wire_after - wire_before,
        "bind": counters.bind_by_process("rxa", 1),
        "tree": tree("rxa"),
        "doctor": [msgspec.to_builtins(one) for one in nics.findings()],
    }
    print("REPORT " + json.dumps(report))


if __name__ == "__main__":
    main()
