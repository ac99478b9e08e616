"""The byte meter kept in line with the jobs: who is counted, and which job a count is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from hostcc.bpf.loader.errors import BpfError
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.limits import MAX_JOBS
from hostcc.measure.bins import Ints
from hostcc.measure.cells import Cells, added
from hostcc.measure.destinations import Records
from hostcc.measure.meter import NOBODY, TX, ByteMeter, MissingData, Window, grouped, joined, total
from hostcc.measure.series import NS

Identify = Callable[[Path], int]
"""The id of a cgroup, 0 when it is gone."""


SLOT_LINGER_SYNCS = 8
"""Calls of `sync`, at most one for each reading, after which the slot of an ended job is free."""


@dataclass(frozen=True, eq=False)
class JobReading:
    """One job's part of a reading."""

    series: Cells
    total: tuple[int, int]
    """Bytes sent and received."""
    who: Records
    """Its destinations that had a part in it and a row of their own, not over loopback; shape (m,),
    seldom one twice."""
    sums: Ints
    """Bytes sent to and received from these, shape (m, 2)."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What passed since the one before."""

    silence: Cells
    """The bins that it covers, without bytes: what those jobs did that are not in `jobs`."""
    jobs: Mapping[str, JobReading]


class Metering:
    """Attaches the meter to jobs' cgroups and names what it reads.

    A managed job's cgroups are all counted in its own slot, in which the congestion control sees
    what it receives.  Those of other jobs have slots from the top, one each.
    """

    def __init__(self, meter: ByteMeter, identify: Identify) -> None:
        self._meter = meter
        self._identify = identify
        self._attached: dict[Path, tuple[int, int]] = {}
        """cgroup -> (slot, its id)."""
        self._jobs: dict[int, str] = {}
        """Slot -> job; of slots that were given up until they are used again."""
        self._ended: dict[int, int] = {}
        """Slot of a job that is no more -> calls of `sync` since."""
        self._rules: dict[tuple[int, bool], int] = {}
        self._rooted = False
        self._gathered: list[Window] = []
        self._readings = 0
        self._met: set[str] = set()
        """Jobs whose bytes have been in a `read`."""
        self.looped: dict[str, int] = {}
        """Bytes that jobs have sent over loopback, by the last reading, which leaves them out."""
        self._since_ns: dict[str, int] = {}
        """Jobs whose part of what was gathered begins later: the rest was in a `read_of`."""
        self.lost = MissingData()
        """All that was lost so far."""

    def sync(
        self, jobs: Iterable[LiveJob], rules: Mapping[tuple[int, bool], str], root: Path
    ) -> None:
        """Count these jobs' cgroups, and sockets by these port rules below `root`; no others."""
        by_name = {job.name: job for job in jobs}
        wanted = {group: job for job in by_name.values() for group in job.groups}
        for job in by_name.values():
            if job.slot:
                self._jobs[job.slot] = job.name
        self._drop(wanted)
        self._forget(by_name)
        for group, job in wanted.items():
            if group not in self._attached:
                self._attach(group, job)
        self._apply(rules, by_name, root)
        self._met &= by_name.keys()
        self.looped = {name: sent for name, sent in self.looped.items() if name in by_name}

    def gather(self) -> None:
        """Read the meter, whose memory is short; what it holds is in the next `read`."""
        window = self._meter.read()
        self.lost = total((self.lost, window.lost))
        self._gathered.append(window)
        self._readings += 1

    @property
    def last(self) -> Window | None:
        """The last of what the next `read` consists of."""
        return self._gathered[-1] if self._gathered else None

    @property
    def jobs(self) -> Mapping[int, str]:
        """Slot -> job."""
        return self._jobs

    @property
    def gathered(self) -> int:
        """Readings of the meter since the last `read` or `read_of` that was no early one."""
        return self._readings

    @property
    def gathered_s(self) -> float:
        """Seconds that the next `read` covers."""
        return sum(len(one) * one.bin_ns for one in self._gathered) / NS

    @property
    def cells(self) -> int:
        """Bins of destinations that it holds: what they take in memory."""
        return sum(len(one.row) for one in self._gathered)

    @property
    def begins(self) -> bool:
        """Whether a job had a part in the last reading of the meter that has been in no `read`."""
        if self.last is None:
            return False
        who = self.last.who
        sending = map(self._jobs.get, set(who["slot"][~who["local"]].tolist()))
        return any(name is not None and name not in self._met for name in sending)

    @property
    def gap(self) -> bool:
        """Whether bins after what was gathered are lost, so that nothing may be added to it."""
        return bool(self._gathered) and self._gathered[-1].lost.bins > 0

    def read(self) -> Reading:
        """What was gathered since the last call, or what the meter holds now."""
        if not self._gathered:
            self.gather()
        window, since_ns = self._joined(), self._since_ns
        self._gathered, self._readings, self._since_ns = [], 0, {}
        reading = self._named(window, since_ns)
        self._met |= {name for name, counted in reading.jobs.items() if any(counted.total)}
        return reading

    def read_of(self, names: Collection[str], *, early: bool = False) -> Reading:
        """These jobs' part of what was gathered; all others' is still in the next `read`.

        `early`: before its time, so `gathered` stays as it is, and the others' comes no later.
        """
        window = self._joined()
        own = [slot for slot, name in self._jobs.items() if name in names]
        mine = np.isin(window.who["slot"], own)
        self._gathered = [window.only(~mine)]
        self._readings = self._readings if early else 0
        since_ns = {name: self._since_ns.get(name, window.start_ns) for name in names}
        self._since_ns.update(dict.fromkeys(names, window.end_ns))
        return self._named(window.only(mine), since_ns)

    def _joined(self) -> Window:
        return self._gathered[0] if len(self._gathered) == 1 else joined(self._gathered)

    def _named(self, window: Window, since_ns: Mapping[str, int]) -> Reading:
        """A window by jobs; of some it is only what came since a moment."""
        parts = window.cells()
        slots: dict[str, list[int]] = {}
        for slot in parts:
            if slot in self._jobs:
                slots.setdefault(self._jobs[slot], []).append(slot)
        number = np.zeros(MAX_JOBS, np.int64)
        for one, own in enumerate(slots.values(), 1):
            number[own] = one
        who, sums = window.who, window.sums()
        self._note_looped(who["slot"][who["local"]], sums[who["local"], TX])
        owner = np.where(who["local"], NOBODY, number[who["slot"]])
        totals = grouped(owner, len(slots) + 1, sums)[1:].tolist()
        named = np.where(who["other"], NOBODY, owner)
        order = np.argsort(named, kind="stable")
        who, sums = who[order], sums[order]
        ends = np.searchsorted(named[order], np.arange(1, len(slots) + 2)).tolist()
        nothing = np.zeros(0, dtype=np.int64)
        silence = Cells(window.bin_ns, window.start_ns, len(window), nothing, nothing, nothing)
        found = {
            name: JobReading(
                _added([parts[slot] for slot in own]), (tx, rx), who[low:high], sums[low:high]
            )
            for (name, own), (tx, rx), (low, high) in zip(
                slots.items(), totals, pairwise(ends), strict=True
            )
        }
        for name, ns in since_ns.items():
            counted = found.get(name, JobReading(silence, (0, 0), who[:0], sums[:0]))
            first = (ns - window.start_ns) // window.bin_ns
            found[name] = replace(counted, series=counted.series.between(first, len(window)))
        return Reading(silence, found)

    def _note_looped(self, slots: Ints, sent: Ints) -> None:
        for slot, size in zip(slots.tolist(), sent.tolist(), strict=True):
            name = self._jobs.get(slot)
            if name is not None:
                self.looped[name] = self.looped.get(name, 0) + size

    def refresh(self) -> None:
        """Look again whose sockets are that belong to no cgroup of a job."""
        if self._rooted:
            self._meter.refresh()

    def check(self) -> list[str]:
        """What is no longer attached, in words."""
        return self._meter.check()

    def close(self) -> None:
        """Detach everything."""
        self._meter.close()

    def _drop(self, wanted: Mapping[Path, LiveJob]) -> None:
        """Let go of groups that are nobody's any more, another's, or not the same ones, and of
        those in a slot that is not, or no longer, their job's."""
        for group, (slot, number) in list(self._attached.items()):
            job = wanted.get(group)
            stays = job is not None and self._jobs.get(slot) == job.name and job.slot in (0, slot)
            if not stays or self._identify(group) != number:
                self._meter.detach_cgroup(slot, group)
                del self._attached[group]

    def _forget(self, live: Mapping[str, LiveJob]) -> None:
        """A slot keeps its name until all of its bytes have been read."""
        gone = {slot for slot, name in self._jobs.items() if name not in live}
        self._ended = {slot: self._ended.get(slot, 0) + 1 for slot in gone}
        for slot, calls in list(self._ended.items()):
            if calls > SLOT_LINGER_SYNCS:
                del self._jobs[slot], self._ended[slot]

    def _attach(self, group: Path, job: LiveJob) -> None:
        number = self._identify(group)
        slot = job.slot or self._spare({slot for slot, _ in self._attached.values()})
        if not number or not slot:
            return
        try:
            self._meter.attach_cgroup(slot, group)
        except (BpfError, OSError):
            if self._identify(group) == number:
                raise
            return  # it ended between the two looks
        self._attached[group] = slot, number
        self._jobs[slot] = job.name

    def _spare(self, taken: set[int]) -> int:
        """A slot from the top that nobody uses, a fresh one if there is; 0: none."""
        free = [slot for slot in range(MAX_JOBS - 1, 0, -1) if slot not in taken]
        return next((slot for slot in free if slot not in self._jobs), free[0] if free else 0)

    def _apply(
        self, rules: Mapping[tuple[int, bool], str], jobs: Mapping[str, LiveJob], root: Path
    ) -> None:
        slots = {}
        for key, name in rules.items():
            job = jobs.get(name)
            if job is not None:
                slots[key] = job.slot or self._slot_of_rule(name)
        if slots == self._rules:
            return
        if slots and not self._rooted:
            self._meter.attach_root(root)
            self._rooted = True
        self._meter.set_port_rules(slots)
        self._rules = slots

    def _slot_of_rule(self, name: str) -> int:
        known = next((slot for slot, job in self._jobs.items() if job == name), 0)
        slot = known or self._spare({slot for slot, _ in self._attached.values()})
        self._jobs[slot] = name
        return slot


def _added(parts: Sequence[Cells]) -> Cells:
    """Bins of the same times, their bytes together."""
    if len(parts) == 1:
        return parts[0]
    at, sent, received = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("at", "sent", "received")
    )
    order = np.argsort(at, kind="stable")
    at, sent, received = added(at[order], sent[order], received[order])
    return replace(parts[0], at=at, sent=sent, received=received)
