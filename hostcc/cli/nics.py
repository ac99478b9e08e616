"""What each RDMA NIC of this host can do for steering: rows of `hostcc doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from hostcc.cli.findings import Finding, State
from hostcc.measure.rdma_counters import RETRANSMISSIONS, SYSFS, Port, read_ports
from hostcc.mltcp.dcqcn import Knob
from hostcc.mltcp.dcqcn_knobs import Knobs
from hostcc.verbs.nic_trial import Nic, PyverbsNic, Trial, driver_of

KNOBS_REMEDY = "with mlx5: NVIDIA's driver (MLNX_OFED, DOCA), or root and a mounted debugfs"


def findings(
    sysfs: Path = SYSFS, nic: Nic | None = None, knobs: Knobs | None = None
) -> list[Finding]:
    """Try every RoCE port of this host."""
    opener, values = nic or PyverbsNic(sysfs), knobs or Knobs()
    return [
        row
        for port in read_ports(sysfs)
        for row in of_port(
            port,
            driver_of(sysfs, port.device) or "no driver of hardware",
            opener.try_port(port.device, port.port) if port.link_layer == "Ethernet" else None,
            values.read(port.netdev) if port.netdev else {},
        )
    ]


def of_port(
    port: Port, driver: str, trial: Trial | None, knobs: Mapping[Knob, int]
) -> Iterator[Finding]:
    """Say of a port what works.  Pure."""
    name = f"{port.device}/{port.port}"
    if trial is None:
        layer = port.link_layer or "unknown link layer"
        yield Finding(name, State.UNKNOWN, f"{layer}, {driver}: hostcc steers RoCE alone",
                      "RoCE steering", required=False)  # fmt: skip
    else:
        yield Finding(name, State.OK, f"RoCE, {port.netdev or 'no interface'}, {driver}",
                      "RoCE steering", required=False)  # fmt: skip
        yield from _steering(name, trial)
        yield _knobs(name, knobs)
    yield _counters(name, port)


def _steering(name: str, trial: Trial) -> Iterator[Finding]:
    rows = (
        ("source port", trial.source_port, "taken at the start, by flow label", "paths"),
        ("class", trial.traffic_class, "taken at the start", "classes by level"),
        ("live change", trial.live_change, "port and class, by SQD", "moves to another path"),
        ("modify_udp_sport", trial.udp_sport, "port in RTS", "moves without draining"),
    )
    for what, result, works, serves in rows:
        if result is None:
            state, detail = State.UNKNOWN, trial.untried or "mlx5 alone has it"
        else:
            state, detail = (State.MISSING, result) if result else (State.OK, works)
        yield Finding(f"{name} {what}", state, detail, serves, required=False)


def _knobs(name: str, knobs: Mapping[Knob, int]) -> Finding:
    serves = "rates by F and weight"
    if not knobs:
        return Finding(f"{name} DCQCN", State.MISSING, "no parameters to read", serves, False,
                       KNOBS_REMEDY)  # fmt: skip
    words = ", ".join(f"{knob} {value}" for knob, value in sorted(knobs.items()))
    return Finding(f"{name} DCQCN", State.OK, words, serves, required=False)


def _counters(name: str, port: Port) -> Finding:
    counted = port.counted
    both = {
        "bytes": (counted.tx_bytes, counted.rx_bytes),
        "packets": (counted.tx_packets, counted.rx_packets),
    }
    have = [what for what, ends in both.items() if None not in ends]
    have += ["retransmissions"] if any(key in port.raw for key in RETRANSMISSIONS) else []
    lack = [what for what in (*both, "retransmissions") if what not in have]
    detail = ", ".join(have) + (f"; no {', no '.join(lack)}" if lack else "")
    state = State.OK if have else State.MISSING
    return Finding(f"{name} counters", state, detail.lstrip("; "), "profiles without the shim",
                   required=False)  # fmt: skip
