"""A real host with a wire to another one, and jobs that send bursts over it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostcc.lab import netns
from tests.real import HOSTCC, PATIENCE_S, RealHost, until

BURSTER = Path(__file__).with_name("burster.py")
HERE, THERE = "198.18.9.1", "198.18.9.2"
USUAL = ["chrt", "--rr", "10"]
"""Bursts have to be punctual however the tests themselves are scheduled."""
QUIET = "[discover]\nenabled = false\n[gpu]\nenabled = false\n"


class WiredHost(RealHost):
    """The far end is a namespace without an agent."""

    def __init__(self, folder: Path, cgroup2: Path) -> None:
        super().__init__(folder, cgroup2)
        self.far = f"{self.name}-far"
        self.processes: list[subprocess.Popen[str]] = []
        netns.create([self.far])
        netns.batch("ip", [f"link add eth0 type veth peer name eth0 netns {self.far}"], self.name)
        for name, address in ((self.name, HERE), (self.far, THERE)):
            netns.batch("ip", [f"addr add {address}/24 dev eth0", "link set eth0 up"], name)
        self.port = self.taker(self.far, THERE)

    def taker(self, namespace: str, address: str) -> str:
        """Start what takes bursts; its port."""
        made = self.spawn(
            "ip", "netns", "exec", namespace, *USUAL, sys.executable, str(BURSTER), "take", address
        )
        assert made.stdout is not None
        return made.stdout.readline().strip()

    def spawn(self, *command: str) -> subprocess.Popen[str]:
        made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(made)
        return made

    def sender(
        self,
        period_s: float,
        size: int,
        times: int,
        how: str = "",
        job: str = "",
        *options: str,
        group: str = "bystanders",
        where: str = THERE,
    ) -> subprocess.Popen[str]:
        """Bursts to the far end; as part of a job if one is named, else in a cgroup `group`.

        `where`: another address of this host, which a taker is started for.
        """
        port = self.port if where == THERE else self.taker(self.name, where)
        home = self.root / group
        home.mkdir(exist_ok=True)
        enter = ["sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', str(home)]
        enter += USUAL
        run = [*HOSTCC, "run", "--job", job, "--socket", str(self.socket), *options, "--"]
        words = ["send", where, port, str(period_s), str(size), str(times), how]
        made = self.spawn(
            *enter, "ip", "netns", "exec", self.name, *(run if job else []), sys.executable,
            str(BURSTER), *words,
        )  # fmt: skip
        assert made.stdout is not None
        assert made.stdout.readline() == "up\n"
        return made

    def detail(self, job: str) -> dict[str, Any]:
        """What `hostcc jobs --detail --json` says of a job."""
        rows = self.json("jobs", "--detail")["jobs"]
        return next((row for row in rows if row["name"] == job), {})

    def profile(self, job: str) -> dict[str, Any]:
        """Its profile; empty while there is none."""
        return self.detail(job).get("profile") or {}

    def until_known(
        self,
        job: str,
        period_s: float,
        size: int,
        more: Callable[[dict[str, Any]], object] = bool,
    ) -> dict[str, Any]:
        """Wait for a profile with this period and these bytes, all of them sent, within 5 %.

        `more`: what else is to be true of it.
        """
        found: dict[str, Any] = {}

        def right() -> bool:
            found.update(self.profile(job))
            period, total = found.get("period_s"), found.get("bytes_per_iteration")
            sent = found.get("tx_bytes")
            return bool(
                period
                and total
                and sent
                and abs(period / period_s - 1) < 0.05
                and abs(total / size - 1) < 0.05
                and abs(sent / size - 1) < 0.05
                and more(found)
            )

        until(right, lambda: f"{period_s} s and {size} bytes: {self.detail(job)}", PATIENCE_S)
        return found

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        netns.remove([self.far])
        super().close()
