"""Tries on an RDMA NIC what steering needs, with two queue pairs of its own and no data.

`PyverbsNic.try_port` connects them to each other, gives them a source port and a class, and changes
both live.  Nothing stays behind.  What is on the wire cannot be seen here: a driver that takes a
flow label and sends from another port is not found out (`hostcc probe` shows which path it took).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hostcc.errors import HostccError, one_line
from hostcc.measure.rdma_counters import SYSFS

NO_PYVERBS = "not tried, because there is no pyverbs: apt-get install python3-pyverbs "
NO_PYVERBS += "ibverbs-providers; jobs are steered without it"
START_PORT, LIVE_PORT, CALL_PORT = 0xC123, 0xC456, 0xC789
START_CLASS, LIVE_CLASS = 0x68, 0x28
MAX_GIDS = 256


@dataclass(frozen=True)
class Trial:
    """What came of it: empty where it works, a reason where not, None where it was not tried."""

    untried: str = ""
    """Why nothing was tried; the others are None then."""
    source_port: str | None = None
    """At INIT to RTR, by the flow label."""
    traffic_class: str | None = None
    """At INIT to RTR."""
    live_change: str | None = None
    """Port and class of a connected queue pair, by SQD."""
    udp_sport: str | None = None
    """mlx5's own call, in RTS."""


class Nic(Protocol):
    """What opens devices; PyverbsNic is the real one."""

    def try_port(self, device: str, port: int) -> Trial:
        """Try a port; never raises for what a device lacks."""


class PyverbsNic:
    """Devices of this host."""

    def __init__(self, sysfs: Path = SYSFS) -> None:
        self._sysfs = sysfs

    def try_port(self, device: str, port: int) -> Trial:
        """Try a port; never raises for what a device lacks."""
        try:
            importlib.import_module("pyverbs.device")
        except ImportError:
            return Trial(untried=NO_PYVERBS)
        index = roce_gid(self._sysfs / device / "ports" / str(port))
        if index is None:
            return Trial(untried="not tried, because the port has no RoCE v2 address")
        from pyverbs.pyverbs_error import PyverbsError

        try:
            return _tried(device, port, index, driver_of(self._sysfs, device))
        except (PyverbsError, OSError) as error:
            return Trial(untried=f"not tried: {one_line(str(error))}")


def roce_gid(port: Path) -> int | None:
    """Return the index of a port's RoCE v2 address, if possible of IPv4; None: it has none."""
    found = []
    for index in range(MAX_GIDS):
        try:
            kind = (port / "gid_attrs/types" / str(index)).read_text(errors="replace")
            gid = (port / "gids" / str(index)).read_text(errors="replace").strip()
        except OSError:  # no such entry, or an empty one
            continue
        if kind.strip() == "RoCE v2" and gid.strip("0:"):
            found.append((not gid.startswith("0000:0000:0000:0000:0000:ffff:"), index))
    return min(found)[1] if found else None


def driver_of(sysfs: Path, device: str) -> str:
    """Return the name of a device's driver, like mlx5_core; empty: it is a software device."""
    try:
        return (sysfs / device / "device/driver").resolve(strict=True).name
    except OSError:
        return ""


def _tried(device: str, port: int, index: int, driver: str) -> Trial:
    import pyverbs.enums as verbs
    from pyverbs.cq import CQ
    from pyverbs.device import Context
    from pyverbs.pd import PD
    from pyverbs.pyverbs_error import PyverbsRDMAError
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

    from hostcc.verbs import steer
    from hostcc.verbs.steer import Route

    with Context(name=device) as context:
        domain, queue = PD(context), CQ(context, 4)
        cap = QPCap(2, 2, 1, 1, 0)
        pairs = [
            QP(domain, QPInitAttr(qp_type=verbs.IBV_QPT_RC, scq=queue, rcq=queue, cap=cap))
            for _ in range(2)
        ]
        gid = context.query_gid(port, index)

        def vector(route: Route) -> Any:
            return steer.address(gid, index, route, device_port=port)

        asked = Route(START_PORT, START_CLASS)
        try:
            for one, other in (pairs, reversed(pairs)):
                attr = QPAttr(port_num=port)
                attr.path_mtu, attr.dest_qp_num = verbs.IBV_MTU_1024, other.qp_num
                attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
                attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
                attr.ah_attr = vector(asked)
                one.to_rts(attr)
        except PyverbsRDMAError as error:
            return Trial(source_port=one_line(str(error)), traffic_class=one_line(str(error)))
        pair = pairs[0]
        got = steer.read(pair).route
        trial = Trial(
            source_port=_unlike("port", asked.port, got.port),
            traffic_class=_unlike("class", asked.traffic_class, got.traffic_class),
            udp_sport=_call(pair) if driver.startswith("mlx5") else None,
        )
        live = _moved(lambda: steer.move(pair, vector(Route(LIVE_PORT, LIVE_CLASS))))
        if not live:
            got = steer.read(pair).route
            live = _unlike("port", LIVE_PORT, got.port)
            live = live or _unlike("class", LIVE_CLASS, got.traffic_class)
        return Trial("", trial.source_port, trial.traffic_class, live, trial.udp_sport)


def _moved(move: Callable[[], object]) -> str:
    try:
        move()
    except HostccError as error:
        return one_line(str(error))
    return ""


def _unlike(what: str, asked: object, got: object) -> str:
    return "" if asked == got else f"asked for {what} {asked}, and {got} is in force"


def _call(pair: Any) -> str:
    # mlx5dv_modify_qp_udp_sport, with pyverbs' provider for it.
    try:
        provider = importlib.import_module("pyverbs.providers.mlx5.mlx5dv")
        provider.Mlx5QP.modify_udp_sport(pair, CALL_PORT)
    except (ImportError, AttributeError) as error:
        return f"pyverbs has no such call: {one_line(str(error))}"
    except Exception as error:  # noqa: BLE001 - the library's errors, whichever class it is
        return one_line(str(error))
    return ""
