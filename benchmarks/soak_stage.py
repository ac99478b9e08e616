"""Two agents with all parts on, two paths between them, and the faults of a soak.

Disks, clocks and links are the lab's own: a run directory is a small tmpfs, the wall clock of an
agent is stepped for its process alone, packets are lost by a program at a switch's port.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks import soak_configs
from benchmarks.checked_stream import CheckedStream
from benchmarks.churn_stage import ChurnStage
from benchmarks.soak_events import HOSTS, Event, Job, Kind, StartMode
from hostcc.config import newer_keys
from hostcc.daemon.profiling import memory_file
from hostcc.errors import Exit, HostccError
from hostcc.lab import agents, cgroup, loss, netns
from hostcc.lab.errors import LabError
from hostcc.lab.leafspine_plan import leaf_name
from hostcc.lab.toml import dump
from hostcc.lab.variants import merge
from hostcc.lab.wallclock import WallClock
from hostcc.paths.steering_messages import Timing

JOB = "benchmarks.soak_job"
RATE_MBIT = 60.0
"""Of a path: little enough that jobs meet, and flows are worth moving."""
DISK_BYTES = 8 << 20
"""Of a run directory: two journals, and room."""
PATIENCE_S = 180.0
"""For what may wait until a timeout of TCP or of the gossip is over, on a busy machine."""
TAKEN = "configuration reloaded"
REFUSED = "reload refused, the old configuration stays"
FAILED = "reload failed"
"""What an agent's log says of a right configuration, of a wrong one, and of what went wrong."""
LINES = 4
"""Of an agent's log, in a trouble."""
RETRY_S = 360.0
"""A part that failed again and again is tried again after five minutes at most."""
FORGET_S = Timing().keep_s + 60.0
"""A translation whose sender ended while the receiver was away is forgotten after `keep_s`."""
CALM_S = 15.0
"""Parts that have nothing to do take a turn every five seconds, some every ten."""
KEPT = {
    "agent.lock", "journal.jsonl", "journal.old.jsonl", "keys", memory_file.NAME, newer_keys.NAME,
}  # fmt: skip
"""What stays in a run directory when its agent has ended."""


class SoakStage(ChurnStage):
    """A context manager: two agents are up and steer, nothing has happened yet."""

    def __init__(self, keep: Path | None = None) -> None:
        """`keep`: a folder that logs go to at the end."""
        super().__init__(RATE_MBIT, hosts_per_leaf=1, over=soak_configs.BASE)
        self._keep = keep
        self.away: set[str] = set()
        """Hosts whose agent is not to run now."""
        self.streams = 0
        self.sent_bytes = 0
        self.restarts = 0
        self.moved = 0
        """Flows moved to another path by agents that were stopped or killed."""
        self._full: set[str] = set()
        self._waiting: set[str] = set()
        """Hosts whose agent cannot start before there is room on its disk."""
        self._losing: set[str] = set()
        self._over_now: dict[str, Mapping[str, Any]] = {}
        """By host: what lies over its configuration."""
        self._clocks: dict[str, WallClock] = {}
        self._jobs: dict[str, CheckedStream] = {}
        self._ending: list[threading.Thread] = []
        self._broken: list[str] = []

    # What happens.  Each raises HostccError, BpfError or OSError when it did not go as it should.

    def apply(self, event: Event) -> None:
        """Let it happen.  The end of what did not begin is nothing."""
        match event.kind:
            case Kind.JOB if event.job is not None:
                self._begin(event.job) if event.begins else self._end(event.job.name)
            case Kind.STOP | Kind.KILL if event.begins:
                self._leave(event.host, killed=event.kind is Kind.KILL)
            case Kind.STOP | Kind.KILL:
                self._come(event.host)
            case Kind.PAUSE:
                number = signal.SIGSTOP if event.begins else signal.SIGCONT
                self.agents[event.host].process.send_signal(number)
            case Kind.RELOAD:
                self._reload(event.host, *soak_configs.choice(event.amount))
            case Kind.DISK:
                self._fill(event.host) if event.begins else self._free(event.host)
            case Kind.CLOCK:
                self._clocks[event.host].step(event.amount)
            case Kind.PATH:
                self._path(int(event.host.removeprefix("spine")), up=not event.begins)
            case Kind.LOSS:
                self._lose(event.host, event.amount if event.begins else 0)

    def check(self) -> list[str]:
        """What is not as it should be, at any time; an agent that has ended is started again."""
        troubles, self._broken = self._broken, []
        for name, agent in self.agents.items():
            status = agent.process.poll()
            if status is None or name in self.away | self._waiting:
                continue
            troubles.append(f"the agent of {name} ended by itself, status {status}: {self.log()}")
            try:
                self._come(name)
            except LabError as error:
                troubles.append(str(error))
                self.away.add(name)
        for name in [name for name, stream in self._jobs.items() if not stream.alive]:
            self._jobs.pop(name).close()
            troubles.append(f"{name} broke: {self._complaints()}")
        return troubles

    def steady(self) -> None:
        """All faults are over: clocks are right, configurations the first ones, hosts have heard
        of each other, and nobody knows of a job any more.  Raises LabError."""
        for name in HOSTS:
            self._clocks[name].step(0)
            if self._over_now.get(name):
                self._reload(name, {}, None)
        for name in [*self._jobs]:
            self._end(name)
        self._wait(
            "streams to end", lambda: not any(x.is_alive() for x in self._ending), PATIENCE_S
        )
        self.hear()
        self._wait("agents to steer", lambda: all(map(self._steers, HOSTS)), RETRY_S)
        try:
            self._wait("agents to forget", lambda: not any(map(self._busy, HOSTS)), FORGET_S)
        except LabError as error:
            raise LabError(f"{error}: {[*map(self._holding, HOSTS)]}") from error

    def process(self, job: str) -> subprocess.Popen[bytes]:
        """The receiving end of a job that runs."""
        return self._jobs[job].receiver

    def calm(self) -> None:
        """Until agents, which have nothing to do, said nothing for CALM_S.  Raises LabError."""
        since, last = time.monotonic(), ""

        def silent() -> bool:
            nonlocal since, last
            if (now := self.log()) != last:
                since, last = time.monotonic(), now
            return time.monotonic() - since > CALM_S

        self._wait("agents that have nothing to do to be silent", silent, PATIENCE_S)

    def hear(self) -> None:
        """Until agents hear of each other.  Raises LabError."""
        self._wait("agents to hear of each other", lambda: all(map(self._hears, HOSTS)), PATIENCE_S)

    def left(self) -> list[str]:
        """Processes of the hosts, and files in run directories, that should be there no more."""
        found = []
        for host in self.lab.hosts:
            for pid in cgroup.processes(self.lab.cgroup_of(host)):
                with suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                    found.append(f"{host.name}: process {pid}: {words.decode(errors='replace')}")
            folder = self.lab.run_dir / host.name
            found += [f"{one}" for one in folder.iterdir() if one.name not in KEPT]
        return found

    def stop(self, name: str) -> None:
        """End an agent in good order.  Raises LabError when it does not."""
        self._stopped(self.agents.pop(name))

    def log(self) -> str:
        """The latest lines of the agents' logs."""
        found = []
        for name in HOSTS:
            path = self.lab.run_dir / f"{name}.agent.log"
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            found.append(f"{name}: " + " / ".join(lines[-LINES:]))
        return "; ".join(found)

    # Agents

    def _leave(self, name: str, *, killed: bool) -> None:
        self.away.add(name)
        self._waiting.discard(name)
        agent = self.agents[name]
        if agent.process.poll() is not None:
            return
        with suppress(HostccError):
            self.moved += int(self.part(name, "steering").get("moved", 0))
        if killed:
            agents.kill([agent])
        else:
            self._stopped(agent)

    def _come(self, name: str) -> None:
        self.away.discard(name)
        self._waiting.discard(name)
        if self.agents[name].process.poll() is None:
            return
        try:
            agents.restart(self.lab, [self.agents[name]])
            self.restarts += 1
        except LabError:
            if name not in self._full:
                raise
            self._waiting.add(name)

    def _stopped(self, agent: agents.Agent) -> None:
        agent.process.terminate()
        try:
            status = agent.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            agents.kill([agent])
            raise LabError(f"it did not end within {PATIENCE_S:g} s: {self.log()}") from None
        unrecorded = status == Exit.UNRECORDED and agent.host.name in self._full
        if status and not unrecorded:
            raise LabError(f"it ended with status {status}: {self.log()}")

    def _reload(self, name: str, over: Mapping[str, Any], wrong: str | None) -> None:
        agent = self.agents[name]
        path = agents.config_path(self.lab, agent.host)
        if wrong is None:
            self._over_now[name] = over
        all_over = merge(soak_configs.BASE, over)
        right = dump(agents.configuration(self.lab, agent.host, all_over, self.lab.hosts))
        before, size = path.read_text(), agent.log.stat().st_size
        path.write_text(right if wrong is None else wrong)
        try:
            if agent.process.poll() is None:
                agent.process.send_signal(signal.SIGHUP)
                self._answered(name, size, right=wrong is None)
        finally:
            if wrong is not None:
                path.write_text(before)

    def _answered(self, name: str, offset: int, *, right: bool) -> None:
        """Until the log, from `offset` on, has the answer to a reload.  Raises LabError."""
        agent, answers = self.agents[name], (TAKEN, REFUSED, FAILED)

        def said() -> str:
            if agent.process.poll() is not None:
                raise LabError(f"the agent ended at a reload: {self.log()}")
            with agent.log.open("rb") as file:
                file.seek(offset)
                text = file.read().decode(errors="replace")
            return next((words for words in answers if words in text), "")

        self._wait("an answer to a reload", lambda: bool(said()), PATIENCE_S)
        expected = TAKEN if right else REFUSED
        if (words := said()) != expected and not (right and name in self._full):
            raise LabError(f"expected {expected!r}, got {words!r}: {self.log()}")

    def _hears(self, name: str) -> bool:
        with suppress(HostccError):
            gossip = self.ask(name, "status")["gossip"]
            return bool(gossip) and int(gossip["members"].get("alive", 0)) == len(HOSTS) - 1
        return False

    def _busy(self, name: str) -> bool:
        """Whether an agent still has anything of a job, or does not look for paths yet."""
        return not self.ask(name, "status")["routing"] or super()._busy(name)

    def _holding(self, name: str) -> str:
        """What an agent has not forgotten."""
        status, steering = self.ask(name, "status"), self.part(name, "steering")
        jobs, flows = (
            [one["name"] for one in status["jobs"]],
            (status["routing"] or {}).get("flows"),
        )
        return f"{name}: jobs {jobs}, flows {flows}, steering {steering}"

    # Jobs

    def _begin(self, job: Job) -> None:
        ends: list[subprocess.Popen[bytes]] = []

        def receive() -> subprocess.Popen[bytes]:
            ends.append(self._rank(job, 0, "take"))
            return ends[0]

        def send() -> subprocess.Popen[bytes]:
            inside = [f"--net=/proc/{ends[0].pid}/ns/net"] if job.how is StartMode.SPACE else []
            return self._rank(job, 1, "send", job.period_s, job.burst_bytes, inside=inside)

        try:
            self._jobs[job.name] = CheckedStream(receive, send)
        except LabError as error:
            raise LabError(f"{error}: {self._complaints()}") from error
        self.streams += job.connections

    def _rank(
        self, job: Job, rank: int, verb: str, *more: object, inside: list[str] | None = None
    ) -> subprocess.Popen[bytes]:
        name = job.sender if rank else job.receiver
        own = job.how is StartMode.SPACE
        address = "127.0.0.1" if own else self.lab.named(job.receiver).address
        words = [verb, address, job.port, job.connections, *more]
        command = [sys.executable, "-m", JOB, *map(str, words)]
        if own and inside:
            command = ["nsenter", *inside, *command]
        elif own:
            command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh",
                       *command]  # fmt: skip
        environment: Mapping[str, str] = MappingProxyType({})
        if job.how is StartMode.FOUND:
            environment = {
                "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": address,
                "MASTER_PORT": str(job.port),
            }  # fmt: skip
        else:
            control = self.agents[name].socket
            command = [*agents.HOSTCC, "run", "--job", job.name, "--socket", str(control), "--",
                       *command]  # fmt: skip
        with self._errors.open("ab") as errors:
            return netns.spawn(
                command,
                namespace=self.lab.namespace(name),
                cgroup=self.lab.cgroup_of(self.lab.named(name)),
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def _end(self, name: str) -> None:
        """In a thread: what is on its way may take a while to arrive."""
        stream = self._jobs.pop(name, None)
        if stream is None:
            return

        def finish() -> None:
            try:
                sent, whole = stream.finish()
                self.sent_bytes += sent
                if not whole:
                    self._broken.append(f"{name}: not all of it arrived: {self._complaints()}")
            except (OSError, ValueError) as error:
                self._broken.append(f"{name} broke: {error}: {self._complaints()}")
            finally:
                stream.close()

        thread = threading.Thread(target=finish, name=name, daemon=True)
        thread.start()
        self._ending = [one for one in self._ending if one.is_alive()] + [thread]

    @property
    def _errors(self) -> Path:
        return self.lab.run_dir / "jobs.log"

    def _complaints(self) -> str:
        with suppress(OSError):
            return " ".join(self._errors.read_text(errors="replace")[-600:].split())
        return ""

    # Disks and links

    def _prepare(self, stack: ExitStack) -> Mapping[str, Mapping[str, str]]:
        for name in HOSTS:
            folder = self.lab.run_dir / name
            folder.mkdir()
            _mount_disk(folder)  # the lab removes it
            self._clocks[name] = WallClock(self.lab.run_dir / f"{name}.clock")
        stack.callback(self._close)
        return {name: clock.environment for name, clock in self._clocks.items()}

    def _close(self) -> None:
        for stream in self._jobs.values():
            stream.close()
        if self._keep is not None:
            for log in self.lab.run_dir.glob("*.log"):
                shutil.copy(log, self._keep)

    def _filler(self, name: str) -> Path:
        return self.lab.run_dir / name / "filler"

    def _fill(self, name: str) -> None:
        self._full.add(name)
        with self._filler(name).open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                with suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def _free(self, name: str) -> None:
        self._filler(name).unlink(missing_ok=True)
        self._full.discard(name)
        if name in self._waiting:
            self._come(name)

    def _path(self, spine: int, *, up: bool) -> None:
        if up and spine in self.lab.dead:
            self.lab.spine_up(spine)
        elif not up:
            self.lab.spine_down(spine)

    def _lose(self, name: str, permille: int) -> None:
        where = self.lab.namespace(leaf_name(self.lab.named(name).leaf))
        if permille:
            loss.begin(where, name, permille)
            self._losing.add(name)
        elif name in self._losing:
            self._losing.discard(name)
            loss.end(where, name)


def _mount_disk(folder: Path) -> None:
    options = f"size={DISK_BYTES},mode=0755"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise LabError(" ".join(done.stderr.split()))
