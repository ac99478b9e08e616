"""Bytes over time of jobs with the transport shim: bins of their queue pairs, job by job.

They take the analysis that bins of sockets take.  Where several jobs share a port these are the
only bins, since a port's counters do not tell jobs apart.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hostcc.daemon.profiling.analysis_budget import Account, AnalysisBudget, AnalysisRequest
from hostcc.daemon.profiling.analysis_run import analyse_all
from hostcc.daemon.profiling.routes import Route
from hostcc.daemon.profiling.tracks import MAX_WAIT_S, Track, apart
from hostcc.log import get_logger
from hostcc.measure.destinations import DESTINATION, Address, Records, address, sum_by
from hostcc.measure.discover.owners import Owners
from hostcc.measure.meter import TX
from hostcc.measure.rdma_counters import SYSFS, read_ports
from hostcc.measure.series import NS, ByteSeries, Ints
from hostcc.verbs.process_counts import user_of
from hostcc.verbs.queue_pair_bins import (
    BIN_NS,
    BIN_SHIFT,
    RING,
    SLACK_BINS,
    BinFile,
    bin_files,
    complete,
    open_bins,
)

log = get_logger("rdma")

READ_NS = NS // 2
"""Between two readings: more than twice per ring."""
MAX_FILES = 256
"""Processes of jobs that are read."""
MEASURE_AGAIN_S = 16.0
"""Between thorough analyses of a job with a confident pattern, seconds."""
MAX_DESTINATIONS = 256
_DEVICE = re.compile(r"^[A-Za-z0-9_.:-]{1,27}\Z")


class JobBins(NamedTuple):
    """What the queue pairs of a job sent since the last reading."""

    job: str
    begin: int
    """Number of the first bin."""
    sent: Ints
    """Bytes by bin, shape (n,)."""
    who: Records
    """Destinations, shape (k,)."""
    to: Ints
    """Bytes sent to and received from these, shape (k, 2)."""
    devices: Mapping[Address, str]
    """Destination -> `DEVICE/PORT` that sends there."""
    whole: bool
    """Whether all queue pairs of the shim's are in it."""


@dataclass
class _Job:
    track: Track
    next_bin: int
    """Number of the first bin that was not read."""
    ways: dict[Address, Route] = field(default_factory=dict)
    whole: bool = True
    measured_ns: int = 0
    """When it was last analysed thoroughly."""


class QueuePairMeter:
    """Keeps a track of each job whose processes have files of bins.

    `owners`: whose each process is now.
    """

    def __init__(
        self, owners: Callable[[], Owners], sysfs: Path = SYSFS, proc: Path = Path("/proc")
    ) -> None:
        self._owners, self._sysfs, self._proc = owners, sysfs, proc
        self._jobs: dict[str, _Job] = {}
        self._rates: dict[str, int | None] = {}
        self.below: dict[str, str] = {}
        """Port (`DEVICE/PORT`) -> the network device that carries it."""
        self._budget = AnalysisBudget()
        self._due_ns = 0
        self._analysing: asyncio.Task[None] | None = None

    @property
    def names(self) -> list[str]:
        """Jobs that are counted here, all of their queue pairs."""
        return sorted(name for name, job in self._jobs.items() if job.whole and job.track.watch)

    def start(self) -> None:
        """Read how fast ports are."""
        ports = list(read_ports(self._sysfs))
        self._rates = {f"{one.device}/{one.port}": one.rate_bps for one in ports}
        self.below = {f"{one.device}/{one.port}": one.netdev for one in ports if one.netdev}

    def stop(self) -> None:
        """Forget everything."""
        if self._analysing is not None:
            self._analysing.cancel()
            self._analysing = None
        self._jobs, self._due_ns = {}, 0

    def traffic(self, job: str) -> tuple[Track, Mapping[Address, Route]] | None:
        """Return what is known of a job, and by which port it reaches each destination."""
        known = self._jobs.get(job)
        if known is None or not known.whole or known.track.watch is None:
            return None
        return known.track, known.ways

    async def tick(self, counts: Path, now_ns: int) -> None:
        """Read all files when that is due, and start analyses; `counts`: prefix of the counters."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + READ_NS
        # In a thread: whoever may write to shared memory can put many files there.
        reading = self._owners(), self._begins(), now_ns >> BIN_SHIFT
        found = await asyncio.to_thread(self._read, counts, *reading)
        for one in found:
            self._take(one)
        self._forget({one.job for one in found}, now_ns)
        self._start_analyses(now_ns)

    def _begins(self) -> dict[str, int]:
        return {name: job.next_bin for name, job in self._jobs.items()}

    # Reading, in a thread.

    def _read(
        self, counts: Path, owners: Owners, begins: Mapping[str, int], now_bin: int
    ) -> list[JobBins]:
        files: dict[str, list[BinFile]] = {}
        try:
            for file in self._genuine(counts, owners):
                files.setdefault(file.job, []).append(file)
            return [
                _of_job(job, those, begins.get(job, 0), now_bin)
                for job, those in sorted(files.items())
            ]
        finally:
            for file in (one for those in files.values() for one in those):
                file.close()

    def _genuine(self, counts: Path, owners: Owners) -> Iterable[BinFile]:
        """Files whose process is the job's (by cgroup) and has the same owner."""
        listed = bin_files(counts)
        whose = owners.of_all(pid for _, pid in listed) if listed else {}
        for path, pid in [one for one in listed if one[1] in whose][:MAX_FILES]:
            file = open_bins(path, pid)
            if file is not None and file.job == whose[pid] and file.uid == user_of(pid, self._proc):
                yield file
            elif file is not None:
                file.close()

    # Tracks.

    def _take(self, new: JobBins) -> None:
        sent, begin = new.sent, new.begin
        job = self._jobs.get(new.job)
        if job is None:
            (full,) = sent.nonzero()
            if not len(full):
                return
            sent, begin = sent[full[0] :], begin + int(full[0])
            job = self._jobs[new.job] = _Job(Track(new.job), begin)
        if not len(sent):
            return
        job.next_bin, job.whole = begin + len(sent), new.whole
        ways = {to: Route(at, self._rates.get(at), nominal=False) for to, at in new.devices.items()}
        if ways.items() - job.ways.items():
            job.ways = dict(list({**job.ways, **ways}.items())[-MAX_DESTINATIONS:])
        with apart(job.track):
            series = ByteSeries(BIN_NS, begin * BIN_NS, sent, np.zeros_like(sent))
            job.track.take(series, new.who, new.to)

    def _forget(self, there: set[str], now_ns: int) -> None:
        """Keep nothing of jobs that have no files, and have sent nothing lately."""
        for name in [*self._jobs]:
            if name not in there and not self._jobs[name].track.sending(now_ns):
                del self._jobs[name]
        self._budget.keep(self._jobs.keys())

    # Analyses.

    def _start_analyses(self, now_ns: int) -> None:
        if self._analysing is not None and not self._analysing.done():
            return
        batch = self._batch(now_ns)
        if batch:
            self._analysing = asyncio.get_running_loop().create_task(self._analyse(batch))

    def _batch(self, now_ns: int) -> list[AnalysisRequest]:
        """Jobs whose bins are worth an analysis, thorough ones as the budget allows."""
        self._budget.save_up(now_ns)
        batch = []
        for name, job in self._jobs.items():
            track = job.track
            if not track.due:
                continue
            account = Account.KNOWN if track.known else Account.LEARNING
            rested = not track.confident or now_ns - job.measured_ns >= MEASURE_AGAIN_S * NS
            paid = self._budget.own_s(name) > 0 or self._budget.has(account)
            if rested and paid:
                job.measured_ns = now_ns
                with apart(track):
                    batch.append(AnalysisRequest(track, track.collect(), True, account))
            elif track.confident or track.waiting_s >= MAX_WAIT_S:
                with apart(track):
                    batch.append(AnalysisRequest(track, track.collect(), False, None))
        return batch

    async def _analyse(self, batch: Sequence[AnalysisRequest]) -> None:
        costs_s = await asyncio.to_thread(analyse_all, batch)
        for request, cost_s in zip(batch, costs_s, strict=True):
            with apart(request.track):
                if isinstance(cost_s, Exception):
                    raise cost_s
                self._budget.charge(request, cost_s)


def _of_job(job: str, files: Sequence[BinFile], begin: int, now_bin: int) -> JobBins:
    """The bins that all processes of a job have finished, from `begin` on; what is older than
    their rings is lost."""
    end = complete(files, now_bin)
    begin = min(max(begin, now_bin - RING + SLACK_BINS), max(begin, end))
    end = max(end, begin)
    sent = np.zeros(end - begin, np.int64)
    to, sums, devices = list[bytes](), list[int](), dict[Address, str]()
    for file in files:
        rows, values = file.read(begin, end)
        sent += values.sum(axis=0)
        for row, size in zip(file.rows[rows], values.sum(axis=1).tolist(), strict=True):
            packed = row["dgid"].tobytes()
            if not any(packed) or not size:
                continue
            to.append(packed)
            sums.append(size)
            device = row["device"].tobytes().partition(b"\0")[0].decode(errors="replace")
            if _DEVICE.match(device):
                devices[address(row["dgid"])] = f"{device}/{int(row['source']) >> 16}"
    who, amounts = _by_destination(to, sums)
    return JobBins(job, begin, sent, who, amounts, devices, not any(one.left_out for one in files))


def _by_destination(to: Sequence[bytes], sums: Sequence[int]) -> tuple[Records, Ints]:
    """Destinations (16 bytes each), and the bytes sent to and received from each."""
    if not to:
        return np.zeros(0, DESTINATION), np.zeros((0, 2), np.int64)
    amounts = np.zeros((len(to), 2), np.int64)
    amounts[:, TX] = sums
    distinct, both = sum_by(np.frombuffer(b"".join(to), "V16"), amounts)
    who = np.zeros(len(distinct), DESTINATION)
    who["addr"] = np.frombuffer(distinct.tobytes(), np.uint8).reshape(-1, 16)
    return who, both
