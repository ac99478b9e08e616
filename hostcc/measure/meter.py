"""Bytes over time per job and destination: what the agent sees of the byte meter.

`ByteMeter` is one interface; hostcc.measure.meter_kernel is the real one.  Slots number the
jobs, as in hostcc.mltcp.backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hostcc.measure import bins
from hostcc.measure.bins import Ints, Words
from hostcc.measure.destinations import Records, sum_by
from hostcc.measure.series import ByteSeries

TX, RX = 0, 1


@dataclass(frozen=True)
class Lost:
    """What is missing from a window, never silently."""

    bins: int = 0
    """Bins right after the window that were not recorded, because reading came too late."""
    tx_bytes: int = 0
    """Payload since the last window that found no place, mostly in those bins."""
    rx_bytes: int = 0
    packets: int = 0
    refused: int = 0
    """Packets since the last window that are in their job's `other` row: too many destinations."""

    def __bool__(self) -> bool:
        return bool(self.bins or self.packets)


@dataclass(frozen=True, eq=False)
class Window:
    """All that passed in n complete bins; m rows that had a part in it.

    A (job, destination) that is not among `who` moved nothing.  It is there twice when its row
    changed in between: sums over rows are right, single rows may be parts.
    """

    bin_ns: int
    start_ns: int
    """Of the first bin, nanoseconds, CLOCK_MONOTONIC."""
    who: Records
    """destinations.DESTINATION, shape (m,)."""
    words: Words
    """Packed counts, shape (m, n, 2), the last axis TX, RX; see `payload` and `wire`."""
    lost: Lost = Lost()

    def __len__(self) -> int:
        return int(self.words.shape[1])

    @property
    def end_ns(self) -> int:
        """Where the last bin ends; the next window begins `lost.bins` bins later."""
        return self.start_ns + len(self) * self.bin_ns

    def payload(self) -> Ints:
        """Bytes after TCP and UDP headers, retransmissions included; shape (m, n, 2).

        Of other protocols everything after the IP header.
        """
        return bins.payload(self.words)

    def wire(self) -> Ints:
        """Bytes with IP and transport headers of every segment; shape (m, n, 2).

        Link-layer framing is not in it: on Ethernet 38 bytes more per packet.
        """
        return self.payload() + bins.headers(self.words)

    def job(self, slot: int, *, local: bool = False, wire: bool = False) -> ByteSeries:
        """One job's bytes to and from all hosts; over loopback only with `local`."""
        mine = self.who["slot"] == slot
        if not local:
            mine &= ~self.who["local"]
        part = Window(self.bin_ns, self.start_ns, self.who[mine], self.words[mine])
        sums = (part.wire() if wire else part.payload()).sum(axis=0, dtype=np.int64)
        return ByteSeries(self.bin_ns, self.start_ns, sums[:, TX], sums[:, RX])

    def totals(self, *, wire: bool = False) -> tuple[Records, Ints]:
        """(who, bytes) of each distinct row over the window; bytes have shape (k, 2)."""
        values = self.wire() if wire else self.payload()
        keys, sums = sum_by(self.who, values.sum(axis=1, dtype=np.int64))
        return keys, sums


class ByteMeter(Protocol):
    """Counts jobs' bytes and hands them over in windows that follow one another.

    Every method may raise hostcc.bpf.errors.BpfError or OSError; after `close`, or the death of
    the process, nothing is attached.
    """

    def attach_cgroup(self, slot: int, cgroup: Path) -> None:
        """Count what sockets below `cgroup` send and receive, those that exist already too."""

    def detach_cgroup(self, slot: int) -> None:
        """Stop; what was counted is still in the next window."""

    def attach_root(self, cgroup: Path) -> None:
        """Also count sockets below `cgroup` that a port rule or the flow tracker gives to a job.

        From then on every packet of the host costs a look at its socket.
        """

    def set_port_rules(self, rules: Mapping[tuple[int, bool], int]) -> None:
        """(port, is_remote) -> slot; replaces the earlier rules."""

    def refresh(self) -> None:
        """Look again whose each socket is, after the flow tracker has adopted some."""

    def read(self) -> Window:
        """What passed since the last call, up to a moment ago; read twice per ring at least."""

    def program_stats(self) -> list[dict[str, Any]]:
        """Run counts and times of our programs, when the kernel collects them."""

    def check(self) -> list[str]:
        """What is no longer as we set it, in words; empty when all is in force."""

    def close(self) -> None:
        """Detach everything."""
