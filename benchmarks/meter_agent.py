"""A process that meters as the agent does, for meter-cost: `python -m benchmarks.meter_agent`.

The first line of standard input is a JSON list of cgroups, one a job.  Then each line is a
command, answered by one line: `on` and `off` attach and detach, `root` also attaches to the
cgroup that holds the others, `idle` leaves the programs attached but has them return at once,
`report` is answered with JSON (`Report`).
"""

from __future__ import annotations

import contextlib
import select
import sys
import time
from pathlib import Path

import msgspec

from benchmarks.usage import PAGE_BYTES
from hostcc.measure.meter_kernel import KernelMeter

READ_S = 0.25
"""A quarter of the ring of bins."""


class Report(msgspec.Struct, frozen=True):
    """Counters since the process started."""

    cpu_s: float
    resident_bytes: int
    map_bytes: int
    """Of all BPF maps that are held."""
    open_files: int
    rows: int
    """Rows of the table of destinations that are taken."""
    calls: int
    """Runs of the programs, when the kernel counts them."""
    call_ns: int
    bytes: int
    """Payload counted, both directions."""
    lost_packets: int
    refused: int


class Metering:
    """The meter and what it has counted."""

    def __init__(self, groups: list[str]) -> None:
        self.meter = KernelMeter()
        self.groups = [Path(group) for group in groups]
        self.bytes = self.lost = self.refused = 0

    def read(self) -> None:
        """One window, as an agent uses it: a series of each job."""
        window = self.meter.read()
        jobs = window.cells(local=True).values()
        self.bytes += sum(int(one.sent.sum() + one.received.sum()) for one in jobs)
        self.lost += window.lost.packets
        self.refused += window.lost.refused

    def order(self, word: str) -> str:
        """Do it and answer."""
        if word == "report":
            return msgspec.json.encode(self.report()).decode()
        if word == "root":
            self.meter.attach_root(self.groups[0].parent)
            return word
        for slot, group in enumerate(self.groups, start=1):
            if word == "on":
                self.meter.attach_cgroup(slot, group)
            elif word == "off":
                self.meter.detach_cgroup(slot)
            else:
                self.meter._slots.update(group.stat().st_ino, 0)  # noqa: SLF001
        return word

    def report(self) -> Report:
        """All counters now."""
        rows = self.meter.program_stats()
        base = Path("/proc/self")
        return Report(
            time.process_time(),
            int((base / "statm").read_text().split()[1]) * PAGE_BYTES,
            _map_bytes(),
            sum(1 for _ in (base / "fd").iterdir()),
            self.meter._rows.in_use,  # noqa: SLF001
            sum(row["run_cnt"] for row in rows),
            sum(row["run_time_ns"] for row in rows),
            self.bytes,
            self.lost,
            self.refused,
        )


def _map_bytes() -> int:
    """What the kernel says that our maps take."""
    total = 0
    for entry in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this very listing
            words = entry.read_text().split()
            if "map_type:" in words:
                total += int(words[words.index("memlock:") + 1])
    return total


def main() -> None:
    """Read every READ_S, and obey."""
    metering = Metering(msgspec.json.decode(sys.stdin.readline(), type=list[str]))
    poll = select.poll()
    poll.register(sys.stdin, select.POLLIN | select.POLLHUP)
    print("ready", flush=True)
    due = time.monotonic()
    while True:
        due = max(due + READ_S, time.monotonic())
        while (left := due - time.monotonic()) > 0:
            if poll.poll(1000 * left):
                line = sys.stdin.readline()
                if not line:
                    return
                print(metering.order(line.strip()), flush=True)
        metering.read()


if __name__ == "__main__":
    main()
