"""Two network namespaces with a wire between them, cgroups, processes in them, a meter."""

from __future__ import annotations

import ctypes
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from hostcc.bpf.loader.libbpf import lib
from hostcc.lab import netns
from hostcc.measure.bins import Ring
from hostcc.measure.destinations import address
from hostcc.measure.meter import RX, TX, Window
from hostcc.measure.meter_kernel import KernelMeter
from tests import patience
from tests.commanded import CommandedProcess

TALK = Path(__file__).with_name("talk.py")
V4 = ("198.18.7.1", "198.18.7.2")
V6 = ("fd00:4843:7::1", "fd00:4843:7::2")
INGRESS, EGRESS = 0, 1  # enum bpf_attach_type: BPF_CGROUP_INET_INGRESS, _EGRESS
Bytes = tuple[int, int]


def until(true: Callable[[], bool], what: str, meanwhile: Callable[[], object] = int) -> None:
    """Wait for something that must come; meanwhile something else."""
    patience.until(true, what, meanwhile=meanwhile)


class Scene:
    """Made by `scene`."""

    def __init__(self, namespaces: list[str], groups: Path, stack: ExitStack) -> None:
        self.namespaces = namespaces
        self.groups = groups
        self._stack = stack
        self._tallies: list[Tally] = []

    def meanwhile(self) -> None:
        """What has to happen while a talker is busy."""
        for tally in self._tallies:
            tally.read()

    def tally(self, meter: KernelMeter) -> Tally:
        """One that also reads while talkers are waited for."""
        self._tallies.append(Tally(meter))
        return self._tallies[-1]

    def group(self, name: str) -> Path:
        """A cgroup, made on first use."""
        path = self.groups / name
        if not path.exists():
            path.mkdir()
            self._stack.callback(_remove, path)
        return path

    def talker(self, side: int, group: str) -> CommandedProcess:
        made = CommandedProcess(TALK, self.namespaces[side], self.group(group), self.meanwhile)
        self._stack.callback(made.kill)
        return made

    def meter(self, ring: Ring | None = None) -> KernelMeter:
        made = KernelMeter(ring or Ring(rows=65, ring_shift=13, shard_shift=1))
        self._stack.callback(made.close)
        return made


@contextmanager
def scene(cgroup: Path) -> Iterator[Scene]:
    """`cgroup` is empty again afterwards; nothing has a route out of the namespaces."""
    names = [f"hcc-meter-{secrets.token_hex(3)}-{side}" for side in "ab"]
    with ExitStack() as stack:
        stack.callback(netns.remove, names)
        netns.create(names)
        netns.batch("ip", [f"link add eth0 type veth peer name eth0 netns {names[1]}"], names[0])
        for side in (0, 1):
            netns.batch(
                "ip",
                [f"addr add {V4[side]}/24 dev eth0 noprefixroute",
                 f"addr add {V6[side]}/64 dev eth0 nodad noprefixroute",
                 "link set eth0 up"],
                names[side],
            )  # fmt: skip
            # No byte goes twice because an acknowledgement was delayed on a busy machine:
            # no probe for the tail, and a time-out that no test waits for.
            netns.set_sysctls(names[side], {"net/ipv4/tcp_early_retrans": "0"})
            for family, network in (("-4", "198.18.7.0/24"), ("-6", "fd00:4843:7::/64")):
                netns.batch(
                    "ip", [f"route add {network} dev eth0 rto_min 60s"], names[side], family
                )
        yield Scene(names, cgroup, stack)


def _remove(group: Path) -> None:
    until(lambda: not (group / "cgroup.procs").read_text(), f"{group} to be empty")
    group.rmdir()


class Tally:
    """All windows of a meter added up."""

    def __init__(self, meter: KernelMeter) -> None:
        self.meter = meter
        self.payload: dict[tuple[int, str, bool], Bytes] = {}
        """(slot, address or "other", local) -> (tx, rx)."""
        self.headers: dict[tuple[int, str, bool], Bytes] = {}
        self.lost_bins = self.lost_packets = self.refused = 0
        self.lost: Bytes = (0, 0)

    def read(self) -> Window:
        window = self.meter.read()
        payload, wire = window.payload().sum(axis=1), window.wire().sum(axis=1)
        for row, who in enumerate(window.who):
            name = "other" if who["other"] else str(address(who["addr"]))
            key = (int(who["slot"]), name, bool(who["local"]))
            if not wire[row].any():
                continue
            for total, new in ((self.payload, payload), (self.headers, wire - payload)):
                old = total.get(key, (0, 0))
                total[key] = (old[TX] + int(new[row, TX]), old[RX] + int(new[row, RX]))
        self.lost_bins += window.lost.bins
        self.lost_packets += window.lost.packets
        self.refused += window.lost.refused
        self.lost = (self.lost[TX] + window.lost.tx_bytes, self.lost[RX] + window.lost.rx_bytes)
        return window

    def all(self) -> None:
        """Read until everything that passed before this call has been handed over."""
        now = time.monotonic_ns()
        until(lambda: _reaches(self.read(), now), "a window beyond now")


def _reaches(window: Window, ns: int) -> bool:
    return window.end_ns + window.lost.bins * window.bin_ns > ns


def programs_on(cgroup: Path) -> int:
    """Programs that are attached to a cgroup for packets."""
    fd = os.open(cgroup, os.O_RDONLY)
    try:
        return sum(_query(fd, kind) for kind in (INGRESS, EGRESS))
    finally:
        os.close(fd)


def _query(fd: int, kind: int) -> int:
    query = lib().bpf_prog_query
    query.restype = ctypes.c_int
    query.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_uint32, *[ctypes.c_void_p] * 3)
    count, ids = ctypes.c_uint32(64), np.zeros(64, np.uint32)
    result = query(fd, kind, 0, None, ids.ctypes.data, ctypes.addressof(count))
    assert result == 0, result
    return count.value
