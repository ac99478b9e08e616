"""Resources of agents during a soak, sampled every few seconds, and their growth."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from benchmarks.held import KINDS, KernelResources, held
from hostcc.lab.agents import Agent

SAMPLE_S = 5.0
SETTLED_S = 60.0
"""Of an agent's life: until then it loads what it needs."""
LONG_S = 120.0
"""Of a life after that: shorter ones say nothing of how it grows."""
FILE = "samples.jsonl"


class Sample(msgspec.Struct, frozen=True):
    """One agent at one moment."""

    at_s: float
    """Since the begin."""
    host: str
    pid: int
    resident_bytes: int
    open_files: int
    threads: int
    objects: int
    """BPF programs, maps and links."""
    entries: int
    """Of its hash maps."""


class Sampler:
    """A context manager that looks at agents in a thread of its own."""

    def __init__(self, agents: Mapping[str, Agent], path: Path | None) -> None:
        """`path`: where samples are kept, a line each."""
        self.samples: list[Sample] = []
        self._agents, self._path = agents, path
        self._ids: dict[str, dict[str, set[int]]] = {}
        self._over = threading.Event()
        self._start = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Sampler:
        if self._path is not None:
            self._path.write_bytes(b"")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def ever(self, now: Mapping[str, KernelResources]) -> dict[str, KernelResources]:
        """All objects that were seen of each host's agents, beside those that they hold now."""
        found = {}
        for name, one in now.items():
            seen = self._ids.get(name, {})
            ids = {kind: tuple(sorted({*one.ids[kind], *seen.get(kind, ())})) for kind in KINDS}
            found[name] = msgspec.structs.replace(one, ids=ids)
        return found

    def _run(self) -> None:
        while not self._over.is_set():
            for name, agent in list(self._agents.items()):
                with suppress(OSError, ValueError, IndexError):  # it has just ended
                    self._look(name, agent.process.pid)
            self._over.wait(SAMPLE_S)

    def _look(self, name: str, pid: int) -> None:
        one = held(pid)
        if not one.resident_bytes:  # it has ended, and nobody has waited for it yet
            return
        for kind in KINDS:
            self._ids.setdefault(name, {}).setdefault(kind, set()).update(one.ids[kind])
        sample = Sample(
            time.monotonic() - self._start, name, pid, one.resident_bytes, one.open_files,
            one.threads, sum(map(len, one.ids.values())), sum(one.entries.values()),
        )  # fmt: skip
        self.samples.append(sample)
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(sample) + b"\n")


def kept(path: Path) -> list[Sample]:
    """Samples of a run before; none if there is no such file."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Sample) for line in path.read_bytes().splitlines()]


def lives(samples: Iterable[Sample]) -> list[list[Sample]]:
    """By agent, from its start to its end."""
    found: dict[tuple[str, int], list[Sample]] = {}
    for one in samples:
        found.setdefault((one.host, one.pid), []).append(one)
    return [*found.values()]


def slope(samples: Iterable[Sample], of: Callable[[Sample], float]) -> float | None:
    """Growth per second, of the lives that were long enough: their slopes by least squares from
    SETTLED_S on, each as heavy as it is long; None without any."""
    found: list[tuple[float, float]] = []
    for life in lives(samples):
        late = [one for one in life if one.at_s >= life[0].at_s + SETTLED_S]
        if late and late[-1].at_s - late[0].at_s >= LONG_S:
            xs = [one.at_s for one in late]
            fit = statistics.linear_regression(xs, [float(of(one)) for one in late])
            found.append((fit.slope, xs[-1] - xs[0]))
    weight = sum(long for _, long in found)
    return sum(grows * long for grows, long in found) / weight if weight else None


def growth(samples: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    """Median of the last third less the median of the first, of the host where it is most."""
    most = 0.0
    for host in sorted({one.host for one in samples}):
        values = [float(of(one)) for one in samples if one.host == host]
        third = len(values) // 3
        if third:
            grown = statistics.median(values[-third:]) - statistics.median(values[:third])
            most = max(most, grown)
    return most
