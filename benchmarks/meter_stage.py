"""Set-up of meter-cost, and of ack-cost's throughput: two namespaces and a wire, cgroups of jobs,
load, a metering process."""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from benchmarks import usage
from benchmarks.meter_agent import Report
from benchmarks.meter_load import Load
from hostcc.lab import cgroup, netns
from hostcc.lab.allowed import allowing
from hostcc.lab.errors import LabError
from hostcc.lab.variants import FALL_BACK
from hostcc.system.cgroups import find_mount

PORT = 7201
SPARE_FILES = 50
"""Of the process that has both ends of every connection, beside those."""
HOSTS = 64
"""Addresses of the other end: so many different destinations."""
NEAR = "198.18.5.1"
FAR = tuple(f"198.18.5.{100 + number}" for number in range(HOSTS))
LOOPBACK = tuple(f"127.0.1.{1 + number}" for number in range(HOSTS))


_CPUS = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))]
"""The sending side has the first, the receiving side the last."""


class Stage:
    """A context manager; everything in it ends with it.  Methods raise LabError or OSError."""

    def __init__(self, jobs: int) -> None:
        tag = secrets.token_hex(3)
        mount = find_mount()
        if mount is None:
            raise LabError("no cgroup v2 is mounted")
        self.root = mount / f"hostcc-bench-{tag}"
        self._spaces = [f"hcc-bench-{tag}-{side}" for side in ("near", "far")]
        self._jobs = [self.root / f"job{number}" for number in range(jobs)]
        self._others = [self.root / name for name in ("sink", "agent")]
        self._stack = contextlib.ExitStack()
        self._load: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Stage:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _build(self) -> None:
        near, far = self._spaces
        self._stack.callback(cgroup.remove, self.root)
        for group in (self.root, *self._jobs, *self._others):
            cgroup.create(group)
        self._stack.callback(netns.remove, self._spaces)
        netns.create(self._spaces)
        netns.batch("ip", [f"link add eth0 type veth peer name eth0 netns {far}"], near)
        for space, addresses in ((near, (NEAR,)), (far, FAR)):
            lines = [f"addr add {address}/24 dev eth0" for address in addresses]
            netns.batch("ip", [*lines, "link set eth0 up"], space)
        netns.batch("ip", ["link set lo up"], near)
        # The default may need a pacing timer for each flow, which would be measured instead.
        with allowing(FALL_BACK):
            netns.set_sysctls(near, {"net/ipv4/tcp_congestion_control": FALL_BACK})
        self._sink = self._start(far, self._others[0], "meter_load", "sink", _CPUS[-1])
        ask(self._sink, str(PORT), "listening")
        self._agent = self._start(near, self._others[1], "meter_agent")
        groups = [str(group) for group in (*self._jobs, self._others[0])]
        ask(self._agent, msgspec.json.encode(groups).decode(), "ready")

    def open(self, flows: int) -> None:
        """Make so many connections over loopback; `throughput` sends over them."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if 2 * flows + SPARE_FILES > files:
            raise LabError(
                f"{flows} flows: expected a hard limit of open files of "
                f"{2 * flows + SPARE_FILES}, got {files}"
            )
        self._load = self._start(self._spaces[0], self._jobs[0], "meter_load", "pump", _CPUS[0])
        ask(self._load, self._what(flows, LOOPBACK), f"open {flows}")

    def churn(self, rate: int) -> None:
        """Start to open and close so many connections a second."""
        self._load = self._start(self._spaces[0], self._jobs[0], "meter_load", "churn", _CPUS[0])
        ask(self._load, self._what(rate, FAR), "open 0")

    @contextlib.contextmanager
    def streams(self, flows: int) -> Iterator[list[str]]:
        """Hold so many connections of the first job to the other end, and give the congestion
        control of each; `throughput` sends over them.

        Both ends are on one CPU: between two it depends on who wakes whom.
        """
        load = self._start(self._spaces[0], self._jobs[0], "meter_load", "stream", _CPUS[-1])
        self._load = load
        try:
            word, _, *controls = ask(load, self._what(flows, FAR)).split()
            if word != "open" or len(controls) != flows:
                raise LabError(f"expected {flows} connections, got {len(controls)}")
            yield controls
        finally:
            _end(load)

    @property
    def job(self) -> Path:
        """The cgroup of the first job."""
        return self._jobs[0]

    def _what(self, flows: int, addresses: Sequence[str]) -> str:
        groups = [str(group) for group in self._jobs]
        return msgspec.json.encode(Load(PORT, list(addresses), groups, flows)).decode()

    def connections(self) -> int:
        """How many the churn has made."""
        assert self._load is not None
        return int(ask(self._load, "count"))

    def order(self, word: str) -> None:
        """`on`, `off` or `idle`."""
        ask(self._agent, word, word)

    def report(self) -> Report:
        """The metering process's counters."""
        return msgspec.json.decode(ask(self._agent, "report"), type=Report)

    def agent_cpu_s(self) -> float:
        """CPU time of the metering process, which does nothing for being asked."""
        return time.clock_gettime(usage.cpu_clock(self._agent.pid))

    def throughput(self, seconds: float) -> float:
        """Send for so long; payload that arrives, bits per second."""
        assert self._load is not None
        count, ns = map(int, ask(self._load, str(seconds)).split())
        return 8e9 * count / ns

    def _start(
        self, space: str, group: Path, module: str, *arguments: str
    ) -> subprocess.Popen[bytes]:
        process = netns.spawn(
            [sys.executable, "-m", f"benchmarks.{module}", *arguments],
            namespace=space, cgroup=group, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._stack.callback(_end, process)
        return process


def ask(process: subprocess.Popen[bytes], line: str, expected: str | None = None) -> str:
    """One line in, one line out; raises LabError when it is not the expected one."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
    except OSError as error:
        raise LabError(f"{_name(process.args)} is gone: {error.strerror}") from error
    answer = process.stdout.readline().decode(errors="replace").strip()
    if not answer or (expected is not None and answer != expected):
        raise LabError(
            f"{_name(process.args)}: expected {expected or 'a line'}, got {answer!r:.60}"
        )
    return answer


def _name(arguments: object) -> str:
    return str(arguments[2]) if isinstance(arguments, Sequence) else "a process"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()
