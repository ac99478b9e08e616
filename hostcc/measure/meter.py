"""Bytes over time per job and destination: what the agent sees of the byte meter.

`ByteMeter` is one interface; hostcc.measure.meter_kernel is the real one.  Slots number the
jobs, as in hostcc.mltcp.backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hostcc.measure import bins
from hostcc.measure.bins import Indices, Ints, Words
from hostcc.measure.cells import Cells, added
from hostcc.measure.destinations import DESTINATION, Records, sum_by
from hostcc.measure.series import ByteSeries

TX, RX = 0, 1
NOBODY = 0
"""The slot that no job has."""


@dataclass(frozen=True)
class MissingData:
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
    changed in between: sums over rows are right, single rows may be parts.  Counts are kept for
    the k cells only that have any, since most bins of most destinations are empty.
    """

    bin_ns: int
    start_ns: int
    """Of the first bin, nanoseconds, CLOCK_MONOTONIC."""
    bins: int
    """n."""
    who: Records
    """destinations.DESTINATION, shape (m,)."""
    row: Indices
    """Of each cell, which of `who`; shape (k,).  The same row and bin may come again."""
    bin: Indices
    """Of each cell, 0 to n - 1; shape (k,)."""
    words: Words
    """Packed counts of each cell, shape (k, 2), the last axis TX, RX."""
    lost: MissingData = MissingData()

    def __len__(self) -> int:
        return self.bins

    @property
    def end_ns(self) -> int:
        """Where the last bin ends; the next window begins `lost.bins` bins later."""
        return self.start_ns + self.bins * self.bin_ns

    def payload(self) -> Ints:
        """Bytes after TCP and UDP headers, retransmissions included; shape (m, n, 2).

        Of other protocols everything after the IP header.
        """
        return self._by_bin(self.row, len(self.who), wire=False)

    def wire(self) -> Ints:
        """Bytes with IP and transport headers of every segment; shape (m, n, 2).

        Link-layer framing is not in it: on Ethernet 38 bytes more per packet.
        """
        return self._by_bin(self.row, len(self.who), wire=True)

    def job(self, slot: int, *, local: bool = False, wire: bool = False) -> ByteSeries:
        """One job's bytes to and from all hosts; over loopback only with `local`."""
        mine = self._shown(local=local) & (self.who["slot"] == slot)
        sums = self._by_bin(np.where(mine, 0, 1)[self.row], 2, wire=wire)[0]
        return ByteSeries(self.bin_ns, self.start_ns, sums[:, TX], sums[:, RX])

    def cells(self, *, local: bool = False) -> dict[int, Cells]:
        """`job` of every slot that moved something, for the price of one pass."""
        slot = self.who["slot"].astype(np.int64)[self.row]
        place = slot * self.bins + self.bin
        shown = np.flatnonzero(self._shown(local=local)[self.row])
        shown = shown[np.argsort(place[shown], kind="stable")]
        counts = self._counts(wire=False)[shown]
        place, sent, received = added(place[shown], counts[:, TX], counts[:, RX])
        (full,) = (sent | received).nonzero()
        of, at = np.divmod(place, max(1, self.bins))
        slots, first = np.unique(of, return_index=True)
        found = {}
        # Those with empty bins only are told as well: they were seen.
        ends = np.searchsorted(full, np.append(first, len(of)))
        for number, (low, high) in zip(slots.tolist(), pairwise(ends.tolist()), strict=True):
            mine = full[low:high]
            found[number] = Cells(
                self.bin_ns, self.start_ns, self.bins, at[mine], sent[mine], received[mine]
            )
        return found

    def only(self, rows: npt.NDArray[np.bool_]) -> Window:
        """The part of some rows; `rows`: which, shape (m,)."""
        kept = rows[self.row]
        number = np.cumsum(rows) - 1
        return replace(
            self,
            who=self.who[rows],
            row=number[self.row[kept]],
            bin=self.bin[kept],
            words=self.words[kept],
        )

    def totals(self) -> tuple[Records, Ints]:
        """(who, bytes) of each distinct row over the window; bytes have shape (k, 2)."""
        return sum_by(self.who, self.sums())

    def sums(self, *, wire: bool = False) -> Ints:
        """Bytes of each of `who` over the window, shape (m, 2)."""
        return grouped(self.row, len(self.who), self._counts(wire=wire))

    def _shown(self, *, local: bool) -> npt.NDArray[np.bool_]:
        """Rows that count, shape (m,)."""
        return np.ones(len(self.who), np.bool_) if local else ~self.who["local"]

    def _counts(self, *, wire: bool) -> Ints:
        """Bytes of each cell, shape (k, 2)."""
        counts = bins.payload(self.words)
        return counts + bins.headers(self.words) if wire else counts

    def _by_bin(self, group: Indices, groups: int, *, wire: bool) -> Ints:
        """Sums of cells by their group, shape (k,), and bin: shape (groups, n, 2)."""
        places = group * self.bins + self.bin
        return grouped(places, groups * self.bins, self._counts(wire=wire)).reshape(
            groups, self.bins, 2
        )


def grouped(group: Indices, groups: int, counts: Ints) -> Ints:
    """Sums of `counts`, shape (k, 2), by group, shape (k,): shape (groups, 2); exact below 2^53."""
    sums = [np.bincount(group, counts[:, side], groups) for side in (TX, RX)]
    return np.stack(sums, axis=-1).astype(np.int64)


def joined(windows: Sequence[Window]) -> Window:
    """One window of several, at least one, that follow one another without a gap.

    Raises ValueError when they do not.
    """
    first, bins, rows = windows[0], 0, 0
    who = np.empty(sum(len(one.who) for one in windows), DESTINATION)
    rows_of, bins_of = [], []
    for one in windows:
        if one.bin_ns != first.bin_ns or one.start_ns != first.start_ns + bins * first.bin_ns:
            raise ValueError(f"expected bins from {first.start_ns + bins * first.bin_ns} ns on, "
                             f"got bins from {one.start_ns} ns on")  # fmt: skip
        who[rows : rows + len(one.who)] = one.who
        rows_of.append(one.row + rows)
        bins_of.append(one.bin + bins)
        rows, bins = rows + len(one.who), bins + len(one)
    words = np.concatenate([one.words for one in windows])
    row, place = np.concatenate(rows_of), np.concatenate(bins_of)
    lost = total(one.lost for one in windows)
    return Window(first.bin_ns, first.start_ns, bins, who, row, place, words, lost)


_COUNTS = attrgetter(*(each.name for each in fields(MissingData)))


def total(losses: Iterable[MissingData]) -> MissingData:
    """All that was lost."""
    return MissingData(*(sum(each) for each in zip(*map(_COUNTS, losses), strict=True)))


class ByteMeter(Protocol):
    """Counts jobs' bytes and hands them over in windows that follow one another.

    Every method may raise hostcc.bpf.loader.errors.BpfError or OSError; after `close`, or the
    death of the process, nothing is attached.
    """

    def attach_cgroup(self, slot: int, cgroup: Path) -> None:
        """Count what sockets below `cgroup` send and receive, those that exist already too; a slot
        may have several."""

    def detach_cgroup(self, slot: int, cgroup: Path | None = None) -> None:
        """Stop for one cgroup, or for all of the slot; what was counted is still in the next
        window."""

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
